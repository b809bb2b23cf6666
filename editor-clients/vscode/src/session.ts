/**
 * Session: folds the values of the event stream into the view; the same fold as `dsh_lsp/session/view.py`, held to it
 * by the recorded transcripts.
 *
 * Rules: pure; an unknown event changes nothing; text that streams is shown until its message comes, which alone
 * counts. What did not change keeps its identity.
 */

import type { Card, FileKind, Mode, Outcome, Range, StreamValue } from './protocol.ts';
import type {
  ApprovalItem,
  FailureItem,
  HunkItem,
  Item,
  LiveText,
  QuestionItem,
  ReviewItem,
  SessionView,
  Todo,
  ToolItem,
  Turn,
  Waiting,
} from './view.ts';

// -- the shapes of events -------------------------------------------------------------------------------------------

type Block = {
  type: string;
  text?: string;
  id?: string;
  name?: string;
  arguments?: string;
  toolCallId?: string;
  isError?: boolean;
  content?: Block[];
};
type Message = { id: string; content: Block[]; source?: { kind: string; summary?: string } };
type TokenUsage = { inputTokens: number; outputTokens: number; cacheReadTokens?: number; cacheWriteTokens?: number };

type OpenedHunk = { id: string; range: Range; oldText: string; newText: string; undoes?: string };
type OpenedFile = { uri: string; kind: FileKind; newUri?: string; hunks: OpenedHunk[] };

export type Events = {
  'turn/start': { turn: number };
  'turn/end': { reason: { kind: string; error?: { message: string }; reason?: { reason?: string } } };
  'step/start': { step: number };
  'user/message': Message;
  'assistant/message': { message: Message; interrupted?: boolean; refused?: boolean; usage?: TokenUsage };
  'assistant/attempt': { step: number; attempt: number; failure?: { code: string; message: string } };
  'tool/call': { callId: string; name: string; arguments: string };
  'tool/result': { message: Message };
  'agent/inbox/spliced': { target: string; start: number; removedCount?: number; inserted: Message[] };
  'request/context': { provider: string; model: string; contextWindow?: number };
  'permission/preset': { preset: Mode };
  'session/title': { title: string };
  'todo/write': { items: Todo[] };
  'approval/asked': {
    id: string;
    callId: string;
    toolName: string;
    effects: { kind: string; detail: string }[];
    reason?: string;
  };
  'approval/decided': { id: string; outcome: { kind: string; comment?: string } };
  'question/asked': { id: string; text: string; options?: string[]; freeText?: boolean };
  'question/answered': { id: string; answer?: string };
  'model/selected': { provider: string; name: string };
  'compaction/start': object;
  'compaction/end': { tokensAfter?: number };
  'llm/retry': { step: number; retry: number; maxRetries: number; delayMs: number };
  'llm/retry-started': { step: number };
  'review/opened': { proposal: string; files: OpenedFile[] };
  'review/decided': { proposal: string; hunks: { id: string; outcome: Outcome; text?: string; comment?: string }[] };
  'edit/landed': { proposal: string; hunk: string; range: Range };
  'assistant/stream': LiveText & { turn: number };
  'tool/progress': { callId: string; text: string };
};

type Fold<K extends keyof Events> = (view: SessionView, data: Events[K], card: Card | undefined) => SessionView;

/** Take one more value of the event stream. */
export function fold(view: SessionView, value: StreamValue): SessionView {
  const take = FOLDS[value.type as keyof Events] as Fold<keyof Events> | undefined;
  return take === undefined ? view : take(view, value.data as never, value.card);
}

const FOLDS: { [K in keyof Events]: Fold<K> } = {
  'turn/start': (view, { turn }) => ({ ...view, turns: [...view.turns, { turn, items: [], step: 0 }] }),
  'turn/end': endTurn,
  'step/start': (view, { step }) => ({ ...withTurn(view, (turn) => ({ ...turn, step })), live: [] }),
  'user/message': say,
  'assistant/message': answer,
  'assistant/attempt': fail,
  'tool/call': startTool,
  'tool/result': finishTool,
  'agent/inbox/spliced': spliceQueue,
  'request/context': (view, { provider, model, contextWindow }) => {
    const { contextWindow: _, ...usage } = view.usage;
    return { ...view, provider, model, usage: optional(usage, { contextWindow }) };
  },
  'model/selected': (view, { provider, name }) => ({ ...view, provider, model: name }),
  'compaction/start': (view) => ({ ...view, compacting: true }),
  'compaction/end': (view, { tokensAfter }) => {
    const usage = tokensAfter === undefined ? view.usage : { ...view.usage, contextTokens: tokensAfter };
    return { ...view, usage, compacting: false };
  },
  'permission/preset': (view, { preset }) => ({ ...view, mode: preset }),
  'session/title': (view, { title }) => ({ ...view, title }),
  'todo/write': (view, { items }) => ({ ...view, todo: items }),
  'approval/asked': (view, asked) => addItem(view, approvalOf(asked)),
  'approval/decided': (view, { id, outcome }) =>
    updateLast(
      view,
      isApproval,
      (item) => item.id === id,
      (item) => {
        const { comment: _, ...rest } = item;
        return optional({ ...rest, outcome: outcome.kind }, { comment: outcome.comment });
      },
    ),
  'review/opened': (view, opened) => addItem(view, reviewOf(opened)),
  'review/decided': decideReview,
  'edit/landed': land,
  'question/asked': (view, { id, text, options = [], freeText }) =>
    addItem(view, { kind: 'question', id, text, options, freeText: freeText || options.length === 0, closed: false }),
  'question/answered': (view, { id, answer: words }) =>
    updateLast(
      view,
      isQuestion,
      (item) => item.id === id,
      (item) => optional({ ...item, closed: true }, { answer: words }),
    ),
  'llm/retry': (view, { step, retry, maxRetries, delayMs }) =>
    updateLast(
      view,
      isFailure,
      (item) => item.step === step,
      (item) => ({ ...item, retry, maxRetries, delayMs, waits: true }),
    ),
  'llm/retry-started': (view, { step }) =>
    updateLast(
      view,
      isFailure,
      (item) => item.step === step,
      (item) => ({ ...item, waits: false }),
    ),
  'assistant/stream': stream,
  'tool/progress': (view, { callId, text }) =>
    updateLast(
      view,
      isTool,
      (item) => item.callId === callId,
      (item) => ({ ...item, progress: text }),
    ),
};

// -- turns ----------------------------------------------------------------------------------------------------------

/** Replace the last turn; a stream that was joined in the middle gets one with the number 0. */
function withTurn(view: SessionView, change: (turn: Turn) => Turn): SessionView {
  const last = view.turns.at(-1) ?? { turn: 0, items: [], step: 0 };
  return { ...view, turns: [...view.turns.slice(0, -1), change(last)] };
}

function addItem(view: SessionView, ...items: Item[]): SessionView {
  return items.length === 0 ? view : withTurn(view, (turn) => ({ ...turn, items: [...turn.items, ...items] }));
}

function endTurn(view: SessionView, { reason }: Events['turn/end']): SessionView {
  const message = reason.error !== undefined ? reason.error.message : reason.reason?.reason;
  const ended = (turn: Turn) =>
    optional({ ...turn, items: turn.items.map(waitsNoMore), ended: reason.kind }, { message });
  return { ...withTurn(view, ended), live: [] };
}

function waitsNoMore(item: Item): Item {
  return item.kind === 'failure' && item.waits ? { ...item, waits: false } : item;
}

function say(view: SessionView, message: Message): SessionView {
  const kind = message.source?.kind === 'user' ? 'user' : 'notice';
  const text = message.source?.summary || textOf(message.content);
  return addItem(view, { kind, id: message.id, text, interrupted: false, refused: false });
}

function spliceQueue(
  view: SessionView,
  { target, start, removedCount, inserted }: Events['agent/inbox/spliced'],
): SessionView {
  const name = target === 'next-turn' ? 'nextTurn' : 'nextStep';
  const waiting: Waiting[] = [...view.queue[name]];
  waiting.splice(start, removedCount ?? 0, ...inserted.map(({ id, content }) => ({ id, text: textOf(content) })));
  return { ...view, queue: { ...view.queue, [name]: waiting } };
}

// -- the model ------------------------------------------------------------------------------------------------------

function stream(view: SessionView, frame: Events['assistant/stream']): SessionView {
  const { step, attempt, block, kind, text } = frame;
  const last = view.live.at(-1);
  if (last !== undefined && last.step === step && last.attempt === attempt && last.block === block) {
    return { ...view, live: [...view.live.slice(0, -1), { ...last, text: last.text + text }] };
  }
  return { ...view, live: [...view.live, { step, attempt, block, kind, text }] };
}

function answer(
  view: SessionView,
  { message, interrupted, refused, usage }: Events['assistant/message'],
): SessionView {
  const items = message.content.flatMap((block): Item[] => {
    switch (block.type) {
      case 'text':
      case 'reasoning': {
        const kind = block.type === 'text' ? 'assistant' : 'thinking';
        const marks = { interrupted: interrupted ?? false, refused: refused ?? false };
        return [{ kind, id: message.id, text: block.text ?? '', ...marks }];
      }
      case 'tool-call':
        return [toolOf(block.id ?? '', block.name ?? '', block.arguments ?? '')];
      default:
        return [];
    }
  });
  const next = { ...addItem(view, ...items), live: [] };
  return usage === undefined ? next : { ...next, usage: { ...next.usage, ...counted(next, usage) } };
}

function counted(view: SessionView, usage: TokenUsage): Omit<SessionView['usage'], 'contextWindow'> {
  const cached = usage.cacheReadTokens ?? 0;
  return {
    input: view.usage.input + usage.inputTokens,
    output: view.usage.output + usage.outputTokens,
    cacheRead: view.usage.cacheRead + cached,
    contextTokens: usage.inputTokens + usage.outputTokens + cached + (usage.cacheWriteTokens ?? 0),
  };
}

function fail(view: SessionView, { step, attempt, failure }: Events['assistant/attempt']): SessionView {
  const next = { ...view, live: [] };
  if (failure === undefined) return next;
  return addItem(next, { kind: 'failure', step, attempt, code: failure.code, message: failure.message });
}

// -- tools ----------------------------------------------------------------------------------------------------------

function toolOf(callId: string, name: string, args: string): ToolItem {
  return { kind: 'tool', callId, name, arguments: args, title: name, state: 'asked' };
}

function startTool(view: SessionView, call: Events['tool/call'], card: Card | undefined): SessionView {
  const asked = (item: ToolItem) => item.callId === call.callId && item.state === 'asked';
  const known = findLast(view, isTool, asked) !== undefined;
  const base = known ? view : addItem(view, toolOf(call.callId, call.name, call.arguments)); // its message was not seen
  return updateLast(base, isTool, asked, (item) => withCard({ ...item, state: 'running' }, card));
}

/** A call's first result is kept: a later one is what a model reads in its place, to save room. */
function finishTool(view: SessionView, { message }: Events['tool/result'], card: Card | undefined): SessionView {
  return message.content.reduce((folded, block) => {
    if (block.type !== 'tool-result') return folded;
    return updateLast(
      folded,
      isTool,
      (item) => item.callId === block.toolCallId,
      (item) => {
        if (item.result !== undefined) return item;
        const { progress: _, ...rest } = item;
        return withCard(
          { ...rest, state: block.isError ? 'failed' : 'done', result: textOf(block.content ?? []) },
          card,
        );
      },
    );
  }, view);
}

function withCard(item: ToolItem, card: Card | undefined): ToolItem {
  return card === undefined ? item : { ...item, card, title: card.title };
}

// -- people ---------------------------------------------------------------------------------------------------------

function approvalOf({ id, callId, toolName, effects, reason }: Events['approval/asked']): ApprovalItem {
  const words = effects.map((effect) => `${effect.kind} ${effect.detail}`);
  return optional({ kind: 'approval', id, callId, tool: toolName, effects: words }, { reason });
}

function reviewOf({ proposal, files }: Events['review/opened']): ReviewItem {
  const shown = files.map(({ uri, kind, newUri, hunks }) =>
    optional({ uri, kind, hunks: hunks.map(hunkOf) }, { newUri }),
  );
  return { kind: 'review', proposal, files: shown };
}

function hunkOf({ id, range, oldText, newText, undoes }: OpenedHunk): HunkItem {
  return optional({ id, line: range.start.line + 1, oldText, newText, landed: false }, { undoes });
}

/** A hunk was seen in its document; if it takes another one back, that one is not there any more. */
function land(view: SessionView, { proposal, hunk: id, range }: Events['edit/landed']): SessionView {
  let undone: string | undefined;
  const next = updateHunks(view, isReviewOf(proposal), (hunk) => {
    if (hunk.id !== id) return hunk;
    undone = hunk.undoes;
    return { ...hunk, line: range.start.line + 1, landed: true };
  });
  if (undone === undefined) return next;
  const holds = (item: ReviewItem) => item.files.some((file) => file.hunks.some((hunk) => hunk.id === undone));
  return updateHunks(next, holds, (hunk) => (hunk.id === undone ? { ...hunk, undone: true } : hunk));
}

const isReviewOf = (proposal: string) => (item: ReviewItem) => item.proposal === proposal;

function decideReview(view: SessionView, { proposal, hunks }: Events['review/decided']): SessionView {
  const decided = new Map(hunks.map((hunk) => [hunk.id, hunk]));
  return updateHunks(view, isReviewOf(proposal), (hunk) => {
    const decision = decided.get(hunk.id);
    if (decision === undefined) return hunk;
    const { comment: _, ...rest } = hunk;
    const newText = decision.text ?? hunk.newText;
    return optional({ ...rest, newText, outcome: decision.outcome }, { comment: decision.comment });
  });
}

function updateHunks(
  view: SessionView,
  which: (item: ReviewItem) => boolean,
  change: (hunk: HunkItem) => HunkItem,
): SessionView {
  return updateLast(view, isReview, which, (item) => ({
    ...item,
    files: item.files.map((file) => ({ ...file, hunks: file.hunks.map(change) })),
  }));
}

// -- finding and replacing ------------------------------------------------------------------------------------------

const isQuestion = (item: Item): item is QuestionItem => item.kind === 'question';
const isFailure = (item: Item): item is FailureItem => item.kind === 'failure';
const isTool = (item: Item): item is ToolItem => item.kind === 'tool';
const isReview = (item: Item): item is ReviewItem => item.kind === 'review';
const isApproval = (item: Item): item is ApprovalItem => item.kind === 'approval';

/** Where the last item of a kind that matches stands; as a rule it is close to the end. */
function findLast<I extends Item>(
  view: SessionView,
  is: (item: Item) => item is I,
  matches: (item: I) => boolean,
): { turn: number; index: number; item: I } | undefined {
  for (let turn = view.turns.length - 1; turn >= 0; turn--) {
    const items = view.turns[turn]?.items ?? [];
    for (let index = items.length - 1; index >= 0; index--) {
      const item = items[index];
      if (item !== undefined && is(item) && matches(item)) return { turn, index, item };
    }
  }
  return undefined;
}

function updateLast<I extends Item>(
  view: SessionView,
  is: (item: Item) => item is I,
  matches: (item: I) => boolean,
  change: (item: I) => I,
): SessionView {
  const found = findLast(view, is, matches);
  if (found === undefined) return view;
  const next = change(found.item);
  if (next === found.item) return view;
  const turns = view.turns.map((turn, number) =>
    number === found.turn ? { ...turn, items: turn.items.with(found.index, next) } : turn,
  );
  return { ...view, turns };
}

/** Add the fields that are there: an absent one is left out, as on the wire. */
function optional<T extends object, O extends object>(
  value: T,
  fields: O,
): T & { [K in keyof O]?: NonNullable<O[K]> } {
  const present = Object.entries(fields).filter(([, field]) => field !== undefined && field !== null);
  return { ...value, ...Object.fromEntries(present) } as T & { [K in keyof O]?: NonNullable<O[K]> };
}

function textOf(content: Block[]): string {
  return content.map((block) => (block.type === 'text' ? (block.text ?? '') : '')).join('');
}
