/**
 * Store: what is known of the current session, and whoever wants to know when it changes.
 *
 * Owns: the view, the last status, which session is the current one.
 * Rules: the view is the fold of the event stream and nothing else; a replay is folded beside the view that is shown
 * and takes its place when it is whole; values of other sessions change nothing: where none is shown, a new one is, but
 * not one that works on in the background.
 */

import * as vscode from 'vscode';
import type { Status, StreamValue } from './protocol.ts';
import { fold } from './session.ts';
import { EMPTY, type SessionView } from './view.ts';

export type Change = { kind: 'values'; values: StreamValue[] } | { kind: 'view' } | { kind: 'status' };

export type Replay = { session: string; view: SessionView; seq: number };

const JOIN_MS = 16; // values are told together once a frame

export class Store implements vscode.Disposable {
  session: string | undefined;
  view: SessionView = EMPTY;
  status: Status | undefined;
  readonly #changed = new vscode.EventEmitter<Change>();
  readonly onDidChange = this.#changed.event;
  #replay: Replay | undefined;
  #untold: StreamValue[] = [];
  #timer: NodeJS.Timeout | undefined;
  /** The sessions that were heard of. */
  readonly #known = new Set<string>();
  /** The last of each: a server tells it when it changes, and not because another session is shown. */
  readonly #statuses = new Map<string, Status>();

  take(value: StreamValue): void {
    const isNew = !this.#known.has(value.session);
    this.#known.add(value.session);
    if (value.session === this.#replay?.session) {
      this.#takeOld(this.#replay, value);
      return;
    }
    if (isNew) this.session ??= value.session;
    if (value.session !== this.session) return;
    this.view = fold(this.view, value);
    this.#untold.push(value);
    this.#timer ??= setTimeout(() => this.tell(), JOIN_MS);
  }

  /** What was on its way when the replay was asked for comes before it, and then again in its place. */
  #takeOld(replay: Replay, value: StreamValue): void {
    if (value.seq !== undefined && value.seq <= replay.seq) replay.view = EMPTY;
    replay.seq = value.seq ?? replay.seq;
    replay.view = fold(replay.view, value);
  }

  takeStatus(status: Status): void {
    this.#statuses.set(status.session, status);
    const isOther = this.session === undefined ? this.#known.has(status.session) : status.session !== this.session;
    if (isOther && status.session !== this.#replay?.session) return;
    this.status = status;
    this.#changed.fire({ kind: 'status' });
  }

  /** Fold what comes for this session from its beginning, until `endReplay`; it takes the place of one before it. */
  beginReplay(session: string): Replay {
    this.#replay = { session, view: EMPTY, seq: -1 };
    return this.#replay;
  }

  /** Show what was replayed; false if another replay has taken its place. */
  endReplay(replay: Replay): boolean {
    if (replay !== this.#replay) return false;
    this.#replay = undefined;
    this.#show(replay.session, replay.view);
    return true;
  }

  dropReplay(replay: Replay): void {
    if (replay === this.#replay) this.#replay = undefined;
  }

  /** Show a session that has no events yet, or none at all. */
  clear(session?: string): void {
    this.#show(session, EMPTY);
  }

  #show(session: string | undefined, view: SessionView): void {
    this.tell(); // what came before belongs to the view before
    this.status = session === undefined ? undefined : this.#statuses.get(session);
    this.session = session;
    this.view = view;
    this.#changed.fire({ kind: 'view' });
  }

  /** Tell at once what was taken: whoever reads the whole view would else be told a part of it again. */
  tell(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const values = this.#untold;
    if (values.length === 0) return;
    this.#untold = [];
    this.#changed.fire({ kind: 'values', values });
  }

  dispose(): void {
    clearTimeout(this.#timer);
    this.#changed.dispose();
  }
}
