/**
 * Protocol: the `dsh` names on the wire, the same as `dsh_lsp/lsp/protocol.py` (a test compares them), and the shapes
 * of what is sent with them.
 *
 * Rules: only what this client reads is typed; a newer server may send more.
 */

export const VERSION = 1;

export const STATUS = 'dsh/status';
export const REVIEW = 'dsh/review';
export const APPROVE = 'dsh/approve';
export const ASK = 'dsh/ask';
export const SAVE = 'dsh/save';
export const DIAGNOSTICS = 'dsh/diagnostics';
export const NAVIGATE = 'dsh/navigate';

export type Mode = 'read-only' | 'ask' | 'auto-edit' | 'plan';
export type Outcome = 'landed' | 'notLanded' | 'unconfirmed' | 'conflict' | 'rejected' | 'cancelled';
export type FileKind = 'edit' | 'create' | 'rename' | 'delete';
export type Decision = 'allowOnce' | 'allowSession' | 'reject';

export type Position = { line: number; character: number };
export type Range = { start: Position; end: Position };

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

export type Card = { kind: string; title: string; detail?: string; body?: string; path?: string };

/** One value of the event stream; `data` has the shape that `type` says. */
export type StreamValue = {
  dsh: number;
  session: string;
  seq?: number;
  time: number;
  type: string;
  data: unknown;
  card?: Card;
};

export type Status = {
  session: string;
  state: 'idle' | 'running' | 'waiting' | 'compacting';
  waitingFor?: 'review' | 'approval' | 'question' | 'retry' | 'tool';
  turn: number;
  step: number;
  queue: { nextTurn: number; nextStep: number };
  paused: boolean;
  mode: Mode;
  model: { provider: string; name: string };
  usage: { input: number; output: number; cacheRead: number; contextTokens: number; contextWindow?: number };
};

export type Summary = {
  session: string;
  title?: string;
  root: string;
  createdAt: number;
  updatedAt: number;
  turns: number;
  parent?: string;
};

export type ReviewHunk = { id: string; range: Range; oldText: string; newText: string };
export type ReviewFile = {
  proposal: string;
  uri: string;
  version?: number;
  kind: FileKind;
  hunks: ReviewHunk[];
  newUri?: string;
};

/** What a command takes as context: a whole document, a part of it, or a given text. */
export type ContextItem = { uri: string; range?: Range; text?: string };

type OfSession = { session?: string };
type Say = OfSession & { text: string; context?: ContextItem[] };
type Accepted = { session: string; message: string };
type Queue = { nextTurn: { message: string; text: string }[]; nextStep: { message: string; text: string }[] };

/** Each command of the server: what it takes and what it answers. */
export type Commands = {
  'dsh.followup': [Say & { first?: boolean }, Accepted];
  'dsh.steer': [Say, Accepted];
  'dsh.inject': [Say, Accepted];
  'dsh.cancel': [OfSession & { keepInbox?: boolean }, { wasRunning: boolean; waitingForTool?: string }];
  'dsh.retry': [OfSession, JsonObject];
  'dsh.inbox.list': [OfSession, Queue];
  'dsh.inbox.edit': [OfSession & { message: string; text: string }, Queue];
  'dsh.inbox.remove': [OfSession & { message: string }, Queue];
  'dsh.inbox.resume': [OfSession, Queue];
  'dsh.status': [OfSession, Status];
  'dsh.session.new': [{ title?: string; root?: string }, Summary];
  'dsh.session.open': [{ session: string; after?: number }, { summary: Summary; lastSeq: number }];
  'dsh.session.list': [{ root?: string; limit?: number }, { sessions: Summary[] }];
  'dsh.session.fork': [OfSession & { turn?: number }, Summary];
  'dsh.session.rename': [{ session: string; title: string }, Summary];
  'dsh.session.delete': [{ session: string }, JsonObject];
  'dsh.session.export': [{ session: string; format: 'markdown' | 'jsonl' }, { text: string }];
  'dsh.mode.set': [OfSession & { mode: Mode }, { mode: Mode }];
  'dsh.model.set': [OfSession & { provider: string; name: string }, JsonObject];
  'dsh.model.list': [OfSession, JsonObject];
  'dsh.review.list': [OfSession, { files: ReviewFile[] }];
  'dsh.review.accept': [
    OfSession & { hunks: string[] | 'all'; uri?: string; edited?: Record<string, string> },
    { left: number },
  ];
  'dsh.review.reject': [OfSession & { hunks: string[] | 'all'; uri?: string; comment?: string }, { left: number }];
  'dsh.approve': [
    OfSession & { approval: string; decision?: Decision; comment?: string; save?: boolean },
    JsonObject,
  ];
  'dsh.answer': [OfSession & { question: string; answer?: string }, JsonObject];
  'dsh.rewind': [OfSession & { turn: number }, JsonObject];
  'dsh.compact': [OfSession, JsonObject];
  'dsh.text': [{ uri: string }, { text: string }];
  'dsh.plugins.reload': [{ name?: string }, { loaded: string[]; failed: { name: string; reason: string }[] }];
};
export type CommandName = keyof Commands;

/** The part of an argument that names a session; without one the server's own choice is meant. */
export function ofSession(session: string | undefined): { session?: string } {
  return session === undefined ? {} : { session };
}
