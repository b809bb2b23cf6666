/**
 * Status: the status bar's item, and the context keys that commands and menus are enabled by.
 *
 * Rules: both are functions of the connection, the status and the view; a key is set only when it changes.
 */

import * as vscode from 'vscode';
import type { Client } from './client.ts';
import type { Store } from './store.ts';
import { pendingHunks, runningTurn, waitingFor } from './view.ts';

type Look = { icon: string; text: string; label: string; warns?: boolean };

const WAITS: Record<string, string> = {
  approval: 'needs your permission',
  question: 'has a question',
  review: 'waits for your review',
  retry: 'tries again soon',
  tool: 'waits for a tool',
};

export class StatusItem implements vscode.Disposable {
  readonly #client: Client;
  readonly #store: Store;
  readonly #item: vscode.StatusBarItem;
  readonly #set = new Map<string, unknown>();
  readonly #disposables: vscode.Disposable[];

  constructor({ client, store }: { client: Client; store: Store }) {
    this.#client = client;
    this.#store = store;
    this.#item = vscode.window.createStatusBarItem('dsh.status', vscode.StatusBarAlignment.Right, 90);
    this.#item.name = 'DSH';
    this.#item.command = 'dsh.ui.ask';
    this.#item.show();
    const update = () => this.update();
    this.#disposables = [this.#item, store.onDidChange(update), client.onDidChangeConnection(update)];
    this.update();
  }

  update(): void {
    this.#draw(this.#look());
    const { view, status } = this.#store;
    const last = view.turns.at(-1);
    const running = runningTurn(view) !== undefined;
    const hunks = (last?.items ?? []).flatMap((item) => (item.kind === 'review' ? pendingHunks(item) : []));
    this.#key('dsh.connected', this.#client.connection.kind === 'running');
    this.#key('dsh.running', running);
    this.#key('dsh.hasTurns', view.turns.length > 0);
    this.#key(
      'dsh.canRetry',
      waitingFor(view) === 'retry' || (!running && last !== undefined && last.ended !== 'completed'),
    );
    this.#key('dsh.paused', status?.paused ?? false);
    this.#key('dsh.approvalWaits', waitingFor(view) === 'approval');
    this.#key('dsh.reviewWaits', hunks.length > 0);
  }

  #key(name: string, value: unknown): void {
    if (this.#set.get(name) === value) return;
    this.#set.set(name, value);
    void vscode.commands.executeCommand('setContext', name, value);
  }

  #look(): Look {
    const { connection } = this.#client;
    if (connection.kind === 'starting') return { icon: 'loading~spin', text: 'DSH', label: 'DSH is starting' };
    if (connection.kind === 'missing')
      return { icon: 'warning', text: 'DSH', label: 'DSH has no server', warns: true };
    if (connection.kind === 'noFolder') return { icon: 'folder', text: 'DSH', label: 'DSH needs a folder' };
    if (connection.kind === 'stopped') return { icon: 'error', text: 'DSH', label: connection.reason, warns: true };
    const { view, status } = this.#store;
    if (view.compacting || status?.state === 'compacting')
      return { icon: 'sync~spin', text: 'DSH compacting', label: 'DSH is compacting the history' };
    const waits = waitingFor(view) ?? (runningTurn(view) === undefined ? undefined : status?.waitingFor);
    const words = waits === undefined ? undefined : WAITS[waits];
    if (words !== undefined) {
      const person = waits !== 'retry' && waits !== 'tool';
      return { icon: person ? 'bell-dot' : 'watch', text: `DSH ${words}`, label: `DSH ${words}`, warns: person };
    }
    const turn = runningTurn(view);
    if (turn !== undefined)
      return { icon: 'loading~spin', text: `DSH step ${turn.step}`, label: `DSH works, step ${turn.step}` };
    if (status?.paused)
      return { icon: 'debug-pause', text: 'DSH paused', label: 'DSH: messages wait; resume the queue' };
    return { icon: 'comment-discussion', text: 'DSH', label: 'DSH is idle' };
  }

  #draw({ icon, text, label, warns }: Look): void {
    const { view, status } = this.#store;
    this.#item.text = `$(${icon}) ${text}`;
    this.#item.accessibilityInformation = { label, role: 'button' };
    this.#item.backgroundColor = warns ? new vscode.ThemeColor('statusBarItem.warningBackground') : undefined;
    const mode = view.mode ?? status?.mode;
    const model = view.model ?? status?.model.name;
    this.#item.tooltip = [label, mode && `Mode: ${mode}`, model && `Model: ${model}`].filter(Boolean).join('\n');
  }

  dispose(): void {
    for (const disposable of this.#disposables) disposable.dispose();
  }
}
