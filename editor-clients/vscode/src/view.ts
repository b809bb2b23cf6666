/**
 * View: what a screen shows of a session; the same as `dsh_lsp/session/view_items.py`, whose JSON it equals.
 *
 * Rules: values are never changed, only replaced, so that a screen sees by identity what is new.
 */

import type { Card, FileKind, Mode, Outcome } from './protocol.ts';

export type Said = {
  kind: 'user' | 'notice' | 'assistant' | 'thinking';
  id: string;
  text: string;
  interrupted: boolean;
  refused: boolean;
};

export type ToolItem = {
  kind: 'tool';
  callId: string;
  name: string;
  arguments: string;
  title: string;
  state: 'asked' | 'running' | 'done' | 'failed';
  result?: string;
  progress?: string;
  card?: Card;
};

export type HunkItem = {
  id: string;
  line: number;
  oldText: string;
  newText: string;
  outcome?: Outcome;
  comment?: string;
  landed: boolean;
  /** The person took it back after it had landed. */
  undone?: boolean;
  /** The hunk that this one takes back. */
  undoes?: string;
};
export type FileItem = { uri: string; kind: FileKind; hunks: HunkItem[]; newUri?: string };
export type ReviewItem = { kind: 'review'; proposal: string; files: FileItem[] };

export type ApprovalItem = {
  kind: 'approval';
  id: string;
  callId: string;
  tool: string;
  effects: string[];
  reason?: string;
  outcome?: string;
  comment?: string;
};

export type QuestionItem = {
  kind: 'question';
  id: string;
  text: string;
  options: string[];
  freeText: boolean;
  closed: boolean;
  answer?: string;
};

/** A model call that gave no message; `retry` says that another try follows, `delayMs` after the failure. */
export type FailureItem = {
  kind: 'failure';
  step: number;
  attempt: number;
  code: string;
  message: string;
  retry?: number;
  maxRetries?: number;
  delayMs?: number;
  waits?: boolean;
};

export type Item = Said | ToolItem | ReviewItem | ApprovalItem | QuestionItem | FailureItem;

export type Turn = { turn: number; items: Item[]; step: number; ended?: string; message?: string };

export type LiveText = {
  step: number;
  attempt: number;
  block: number;
  kind: 'text' | 'thinking' | 'toolArguments';
  text: string;
};

export type Waiting = { id: string; text: string };

export type Usage = {
  input: number;
  output: number;
  cacheRead: number;
  contextTokens: number;
  contextWindow?: number;
};

export type Todo = { text: string; status: 'pending' | 'in_progress' | 'done' };

export type SessionView = {
  title?: string;
  mode?: Mode;
  provider?: string;
  model?: string;
  turns: Turn[];
  live: LiveText[];
  todo: Todo[];
  queue: { nextTurn: Waiting[]; nextStep: Waiting[] };
  usage: Usage;
  /** The history is being made shorter. */
  compacting?: boolean;
};

export const EMPTY: SessionView = {
  turns: [],
  live: [],
  todo: [],
  queue: { nextTurn: [], nextStep: [] },
  usage: { input: 0, output: 0, cacheRead: 0, contextTokens: 0 },
};

/** The turn that runs, if one does. */
export function runningTurn(view: SessionView): Turn | undefined {
  const last = view.turns.at(-1);
  return last?.ended === undefined ? last : undefined;
}

export type WaitingFor = 'approval' | 'question' | 'review' | 'retry';

/** What a person must decide before the turn goes on, or the next try, which comes by itself. */
export function waitingFor(view: SessionView): WaitingFor | undefined {
  const items = runningTurn(view)?.items ?? [];
  if (items.some((item) => item.kind === 'approval' && item.outcome === undefined)) return 'approval';
  if (items.some((item) => item.kind === 'question' && !item.closed)) return 'question';
  if (items.some((item) => item.kind === 'review' && pendingHunks(item).length > 0)) return 'review';
  return items.some((item) => item.kind === 'failure' && item.waits) ? 'retry' : undefined;
}

export function stateOf(view: SessionView): 'idle' | 'running' | 'waiting' | 'compacting' {
  if (view.compacting) return 'compacting';
  if (runningTurn(view) === undefined) return 'idle';
  return waitingFor(view) === undefined ? 'running' : 'waiting';
}

/** What became of those of some hunks that do not wait any more; of one that the view does not have nobody knows. */
export function outcomesOf(view: SessionView, ids: string[]): Map<string, Outcome | undefined> {
  const hunks = hunksOf(view);
  const over = ids.filter((id) => !hunks.has(id) || hunks.get(id)?.outcome !== undefined);
  return new Map(over.map((id) => [id, hunks.get(id)?.outcome]));
}

/** What became of a hunk, if it does not wait any more. */
export function outcomeOf(view: SessionView, id: string): Outcome | undefined {
  return hunksOf(view).get(id)?.outcome;
}

function hunksOf(view: SessionView): Map<string, HunkItem> {
  const hunks = view.turns
    .flatMap((turn) => turn.items)
    .flatMap((item) => (item.kind === 'review' ? item.files : []))
    .flatMap((file) => file.hunks);
  return new Map(hunks.map((hunk) => [hunk.id, hunk]));
}

/** The hunks of a review that wait for a decision. */
export function pendingHunks(review: ReviewItem): HunkItem[] {
  return review.files.flatMap((file) => file.hunks).filter((hunk) => hunk.outcome === undefined);
}

/** A file's new name, with the folders that differ from those where it was. */
export function newNameOf(uri: string, newUri: string): string {
  const [before, after] = [uri.split('/').slice(0, -1), newUri.split('/')];
  const same = before.findIndex((part, index) => part !== after[index]);
  return decodeURIComponent(after.slice(same < 0 ? before.length : same).join('/'));
}
