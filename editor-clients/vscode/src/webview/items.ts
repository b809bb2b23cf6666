/** Items: each thing that a turn shows, as an element. */

import type { Card } from '../protocol.ts';
import {
  type FailureItem,
  type FileItem,
  type Item,
  newNameOf,
  type ReviewItem,
  type Said,
  type Todo,
  type ToolItem,
} from '../view.ts';
import { drawApproval, drawQuestion } from './asked.ts';
import { button, type Child, el, icon } from './dom.ts';
import { markdown } from './markdown.ts';
import { post, run } from './page.ts';

const LONGEST = 20_000; // characters of a result that are drawn

export function draw(item: Item): HTMLElement {
  switch (item.kind) {
    case 'user':
    case 'notice':
    case 'assistant':
    case 'thinking':
      return drawSaid(item);
    case 'tool':
      return drawTool(item);
    case 'review':
      return drawReview(item);
    case 'approval':
      return drawApproval(item);
    case 'question':
      return drawQuestion(item);
    case 'failure':
      return drawFailure(item);
  }
}

function drawSaid(said: Said): HTMLElement {
  if (said.kind === 'user')
    return el('div', { class: 'user' }, el('span', { class: 'sr' }, 'You: '), userText(said.text));
  if (said.kind === 'notice') return drawNotice(said);
  if (said.kind === 'thinking') {
    const body = el('div', { class: 'plain-text' }, said.text);
    return el(
      'details',
      { class: 'thinking', 'data-fold': `thinking ${said.id}` },
      el('summary', {}, 'Thought'),
      body,
    );
  }
  const body = el('div', { class: 'markdown' });
  body.append(markdown(said.text));
  if (said.interrupted) body.append(el('p', { class: 'mark' }, icon('circle-slash'), ' interrupted'));
  if (said.refused) body.append(el('p', { class: 'mark' }, icon('circle-slash'), ' the model refused'));
  return body;
}

/** What the model is told besides; of several lines the first is shown, the rest is folded. */
function drawNotice({ id, text }: Said): HTMLElement {
  const [first = '', ...more] = text.trim().split('\n');
  if (more.length === 0) return el('div', { class: 'notice' }, icon('info'), el('span', {}, first));
  const body = el('div', { class: 'plain-text' }, more.join('\n').trim());
  return el('details', { class: 'thinking', 'data-fold': `notice ${id}` }, el('summary', {}, first), body);
}

/** A message of the user's; what they pointed at comes behind it, as blocks that say from where, and is folded. */
function userText(text: string): HTMLElement {
  const [words = '', ...blocks] = text.split(/\n\n(?=From [^\n]+:\n```)/);
  const box = el('div', { class: 'user-text' }, words);
  if (blocks.length === 0) return box;
  const body = el('div', { class: 'markdown' });
  body.append(markdown(blocks.join('\n\n')));
  return el('div', {}, box, el('details', { class: 'context' }, el('summary', {}, 'Context'), body));
}

// -- tools ----------------------------------------------------------------------------------------------------------

const KINDS: Record<string, string> = {
  terminal: 'terminal',
  diff: 'edit',
  search: 'search',
  read: 'file',
  todo: 'checklist',
  generic: 'tools',
};
const STATES: Record<ToolItem['state'], [icon: string, words: string]> = {
  asked: ['loading codicon-modifier-spin', 'about to run'],
  running: ['loading codicon-modifier-spin', 'running'],
  done: ['check', 'done'],
  failed: ['error', 'failed'],
};

function drawTool(tool: ToolItem): HTMLElement {
  const [stateIcon, words] = STATES[tool.state];
  const body = toolBody(tool);
  const title = el('span', { class: 'tool-title' }, tool.title);
  const state = el(
    'span',
    { class: `tool-state ${tool.state}`, title: words },
    icon(stateIcon),
    el('span', { class: 'sr' }, words),
  );
  const head: Child[] = [icon(KINDS[tool.card?.kind ?? 'generic'] ?? 'tools'), title];
  const properties = {
    class: `tool ${tool.state}`,
    'aria-live': tool.state === 'running' ? 'off' : undefined, // its end is heard, and not each line on the way
  };
  if (body.length === 0)
    return el('div', properties, el('div', { class: 'tool-head' }, ...head, opener(tool.card), state));
  const open = tool.card?.kind === 'todo' || tool.progress !== undefined;
  const details = el(
    'details',
    { ...properties, 'data-fold': tool.callId },
    el('summary', { class: 'tool-head' }, ...head, state),
    ...body,
  );
  if (open) details.setAttribute('open', '');
  return details;
}

function opener(card: Card | undefined): Child {
  const path = card?.path;
  if (path === undefined) return undefined;
  const open = (event: Event) => {
    event.preventDefault();
    post({ kind: 'open', path });
  };
  return el(
    'a',
    { href: '#', class: 'path', title: `Open ${path}`, 'aria-label': `Open ${path}`, onclick: open },
    icon('go-to-file'),
  );
}

function toolBody({ card, result, progress, state }: ToolItem): HTMLElement[] {
  const parts: HTMLElement[] = [];
  if (card?.kind === 'diff' && card.body) parts.push(diffBlock(card.body));
  else if (card?.kind === 'todo' && card.body) parts.push(todoList(card.body));
  else if (card?.body) parts.push(preBlock(card.body, card.kind));
  if (progress !== undefined) parts.push(preBlock(progress, 'terminal'));
  const path = card?.path;
  if (path !== undefined && parts.length > 0) {
    const opens = button(`Open ${path}`, () => post({ kind: 'open', path }), { class: 'link' });
    parts.unshift(el('p', { class: 'detail' }, opens));
  }
  if (card?.detail) parts.push(el('p', { class: 'detail' }, card.detail));
  if (state === 'failed' && result !== undefined && card?.body !== result) parts.push(preBlock(result, 'error'));
  return parts;
}

function preBlock(text: string, kind: string): HTMLElement {
  return el('pre', { class: `block ${kind}`, tabindex: 0 }, clipped(text));
}

function clipped(text: string): string {
  return text.length <= LONGEST ? text : `${text.slice(0, LONGEST)}\n[${text.length - LONGEST} more characters]`;
}

/** Lines that begin with `-` or `+`. */
export function diffBlock(text: string): HTMLElement {
  const lines = clipped(text.replace(/\n$/, '')).split('\n');
  const drawn = lines.map((line) => {
    const kind = line.startsWith('+') ? 'added' : line.startsWith('-') ? 'removed' : 'same';
    return el('span', { class: `line ${kind}` }, `${line}\n`);
  });
  return el('pre', { class: 'block diff', tabindex: 0 }, ...drawn);
}

function todoList(text: string): HTMLElement {
  const rows = text.split('\n').filter((line) => line.trim() !== '');
  const items = rows.map((row) => {
    const [, mark = ' ', words = row] = /^\s*(?:[-*]\s*)?\[(.)\]\s*(.*)$/.exec(row) ?? [];
    return todoRow(words, mark === 'x' ? 'done' : mark === ' ' ? 'pending' : 'in_progress');
  });
  return el('ul', { class: 'todos' }, ...items);
}

const TODO_STATES: Record<Todo['status'], [icon: string, words: string]> = {
  pending: ['circle-large', 'to do'],
  in_progress: ['record', 'in work'],
  done: ['pass-filled', 'done'],
};

export function todoRow(text: string, status: Todo['status']): HTMLElement {
  const [name, words] = TODO_STATES[status];
  return el(
    'li',
    { class: `todo ${status}` },
    icon(name),
    el('span', { class: 'sr' }, `${words}: `),
    el('span', {}, text),
  );
}

// -- people ---------------------------------------------------------------------------------------------------------

const OUTCOMES: Record<string, [icon: string, words: string]> = {
  landed: ['check', 'landed'],
  rejected: ['close', 'rejected'],
  conflict: ['warning', 'conflict: you changed these lines'],
  unconfirmed: ['question', 'not confirmed: the document does not show it'],
  notLanded: ['error', 'not applied'],
  cancelled: ['circle-slash', 'cancelled'],
};

function drawReview(review: ReviewItem): HTMLElement {
  const waits = review.files.some((file) => file.hunks.some((hunk) => hunk.outcome === undefined));
  return el('div', { class: `review ${waits ? 'pending' : ''}` }, ...review.files.map(reviewFile));
}

function reviewFile(file: FileItem): HTMLElement {
  const to = file.newUri === undefined ? '' : ` → ${newNameOf(file.uri, file.newUri)}`;
  const name = `${nameOf(file.uri)}${to}`;
  const open = () => {
    if (file.hunks.some((hunk) => hunk.outcome === undefined)) run('dsh.ui.reviewEdits', file.uri);
    else post({ kind: 'open', path: file.uri, line: file.hunks[0]?.line ?? 1 });
  };
  const added = count(file, 'newText');
  const removed = count(file, 'oldText');
  const isText = file.kind !== 'rename' || added + removed > 0;
  const head = el(
    'summary',
    {},
    icon(file.kind === 'create' ? 'new-file' : file.kind === 'delete' ? 'trash' : 'file'),
    el('span', { class: 'name', title: decodeURIComponent(file.uri) }, name),
    isText && el('span', { class: 'plus' }, `+${added}`),
    isText && el('span', { class: 'minus' }, `-${removed}`),
    el('span', { class: 'outcome' }, outcomeOf(file)),
  );
  const hunks = file.hunks.map((hunk) => {
    const lines = [...signed('-', hunk.oldText), ...signed('+', hunk.newText)].join('\n');
    const [name, words] = hunk.undone
      ? ['discard', 'taken back']
      : (OUTCOMES[hunk.outcome ?? ''] ?? ['bell-dot', 'waits']);
    const comment = hunk.comment ? `: ${hunk.comment}` : '';
    return el(
      'div',
      { class: 'hunk' },
      el('p', { class: 'detail' }, icon(name), ` line ${hunk.line}, ${words}${comment}`),
      diffBlock(lines),
    );
  });
  const waits = file.hunks.some((hunk) => hunk.outcome === undefined);
  const opens = el('p', { class: 'detail' }, button(waits ? 'Review' : 'Open', open, { class: 'link' }));
  return el(
    'details',
    { class: 'file', 'data-fold': `${file.uri} ${file.hunks[0]?.id ?? ''}` },
    head,
    opens,
    ...hunks,
  );
}

function nameOf(uri: string): string {
  return decodeURIComponent(uri.split('/').at(-1) ?? uri);
}

function count(file: FileItem, side: 'newText' | 'oldText'): number {
  return file.hunks.reduce(
    (sum, hunk) =>
      sum + hunk[side].split('\n').filter((_, index, all) => index < all.length - 1 || all[index] !== '').length,
    0,
  );
}

function signed(sign: string, text: string): string[] {
  return text === ''
    ? []
    : text
        .replace(/\r?\n$/, '')
        .split(/\r?\n/)
        .map((line) => `${sign} ${line}`);
}

function outcomeOf(file: FileItem): string {
  const outcomes = new Set(file.hunks.map((hunk) => (hunk.undone ? 'undone' : hunk.outcome)));
  if (outcomes.has(undefined)) return 'waits';
  if (outcomes.size > 1) return 'in part';
  const [only] = outcomes;
  return only === 'notLanded' ? 'not applied' : only === 'undone' ? 'taken back' : (only ?? '');
}

const KEY_IS_WRONG = new Set(['AUTH', 'MISSING_CREDENTIAL', 'INVALID_CREDENTIAL']);

function drawFailure(failure: FailureItem): HTMLElement {
  if (failure.retry !== undefined && !failure.waits) {
    const words = `${failure.message} (${failure.code}), tried again`;
    return el('div', { class: 'notice tried', title: words }, icon('sync'), el('span', {}, words));
  }
  const again = failure.waits
    ? `Try ${(failure.retry ?? 0) + 1} of ${(failure.maxRetries ?? 0) + 1} in ${Math.ceil((failure.delayMs ?? 0) / 1000)} s`
    : undefined;
  return el(
    'div',
    { class: `failure ${failure.waits ? 'waits-retry' : ''}` },
    icon(failure.waits ? 'sync' : 'error'),
    el(
      'div',
      {},
      el('p', {}, failure.message),
      el('p', { class: 'detail' }, [failure.code, again].filter(Boolean).join(' · ')),
    ),
    failure.waits && button('Try Now', () => run('dsh.ui.retry'), { class: 'secondary' }),
    KEY_IS_WRONG.has(failure.code) &&
      button('Set API Key', () => run('dsh.ui.setApiKey'), { icon: 'key', class: 'secondary' }),
  );
}
