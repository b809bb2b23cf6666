/** File under review: one file's proposal with what the views need to know of it. */

import * as path from 'node:path';
import * as vscode from 'vscode';
import type { Text } from './corrections.ts';
import { type Change, type Hunk, linesOf, Proposal } from './proposal.ts';
import { EMPTY } from './proposal_files.ts';
import type { Outcome, ReviewFile, ReviewHunk } from './protocol.ts';
import { TITLE } from './review_tabs.ts';
import { newNameOf } from './view.ts';

/** One file under review; `whole` hunks are made of whole lines, the others reach the end of a file without newline. */
export class FileUnderReview {
  readonly proposal: Proposal;
  readonly left: vscode.Uri;
  readonly right: vscode.Uri;
  readonly uri: string;
  readonly what: string;
  /** Whose proposals these are: they wait, whichever session is shown. */
  readonly session: string | undefined;
  /** The text that we are bringing into the proposal's document. */
  writes: string | undefined;
  readonly #whole = new Map<string, boolean>();

  constructor(parts: {
    uri: string;
    what: string;
    session: string | undefined;
    left: vscode.Uri;
    right: vscode.Uri;
    text: string;
  }) {
    this.uri = parts.uri;
    this.session = parts.session;
    this.what = parts.what;
    this.left = parts.left;
    this.right = parts.right;
    this.proposal = new Proposal(linesOf(parts.text));
  }

  add(hunk: ReviewHunk): boolean {
    const [made, whole] = hunkOf(hunk, this.left.scheme === EMPTY);
    if (!this.proposal.add(made)) return false;
    this.#whole.set(hunk.id, whole);
    return true;
  }

  /** The text that the user has put in the place of a hunk's, if they have. */
  correction(id: string, eol: string): string | undefined {
    const lines = this.proposal.correction(id);
    if (lines === undefined) return undefined;
    return this.#whole.get(id) ? lines.map((line) => line + eol).join('') : lines.join(eol);
  }

  /** Whether the user has written anything into it. */
  get isWritten(): boolean {
    return this.own.length > 0 || this.proposal.ids.some((id) => this.proposal.correction(id) !== undefined);
  }

  /** What it reads now. */
  get text(): Text {
    return { uri: this.uri, text: this.proposal.right.join('\n') };
  }

  /** Whether a decision takes away what the user has written into a hunk, against their word; no outcome: it is gone. */
  losesWords(id: string, outcome: Outcome | undefined, rejectedHere: boolean): boolean {
    if (this.proposal.correction(id) === undefined || outcome === 'landed') return false;
    return !(rejectedHere && (outcome === undefined || outcome === 'rejected'));
  }

  /** The hunk at a line, or the next one below. */
  hunkAt(line: number): string | undefined {
    const hunks = this.proposal.changes().filter(({ id }) => id !== undefined);
    return (hunks.find(({ right }) => line < Math.max(right[1], right[0] + 1)) ?? hunks.at(-1))?.id;
  }

  get own(): Change[] {
    return this.proposal.changes().filter(({ id }) => id === undefined);
  }
}

/** A hunk in lines; that of a new file is all of it, so that whatever is written there corrects it. */
function hunkOf({ id, range, oldText, newText }: ReviewHunk, isNew: boolean): [Hunk, boolean] {
  const whole = !isNew && [oldText, newText].every((text) => text === '' || /[\r\n]$/.test(text));
  const cut = (text: string) => (whole ? linesOf(text).slice(0, -1) : linesOf(text));
  return [{ id, start: range.start.line, oldLines: cut(oldText), newLines: cut(newText) }, whole];
}

/** Whether nothing is left to decide in a file, neither the agent's edits nor the user's own. */
export function isDone(under: FileUnderReview): boolean {
  return under.proposal.ids.length === 0 && under.own.length === 0;
}

export function titleOf({ uri, what }: FileUnderReview): string {
  return `${TITLE}: ${nameOf(uri)}${what}`;
}

/** What is proposed besides an edit of the text. */
export function whatOf({ uri, kind, newUri = uri }: ReviewFile): string {
  if (kind === 'rename') return ` → ${newNameOf(uri, newUri)}`;
  return { create: ' (new file)', delete: ' (delete)', edit: '' }[kind];
}

export function nameOf(uri: string): string {
  return path.posix.basename(vscode.Uri.parse(uri).path);
}

/** Whether a change that a lens was made for is still there. */
export function isCurrent(under: FileUnderReview, change: Change): boolean {
  const key = JSON.stringify(change);
  return under.own.some((one) => JSON.stringify(one) === key);
}
