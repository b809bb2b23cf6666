/**
 * Main: the page: folds what the extension sends, and draws it once a frame.
 *
 * Rules: whatever comes between two frames is drawn together; the view here is a copy, thrown away with the page.
 */

import type { Frame, ToPage } from '../chat_messages.ts';
import type { Status } from '../protocol.ts';
import { fold } from '../session.ts';
import { EMPTY, type SessionView } from '../view.ts';
import { Composer } from './composer.ts';
import { button, el, icon } from './dom.ts';
import { takeOrphans } from './kept_words.ts';
import { Log } from './log.ts';
import { post, run, takeOnce } from './page.ts';
import './main.css';

const app = document.getElementById('app') as HTMLElement;
const banner = el('div', { id: 'banner', role: 'status' });
const log = new Log(welcome);
const composer = new Composer();
app.append(el('h1', { class: 'sr' }, 'DSH'), banner, log.element, log.toEnd, composer.element);

let view: SessionView = EMPTY;
let frame: Frame | undefined;
let status: Status | undefined;
let session: string | undefined;
let due = false;
let restored = false;
let wanted: Extract<ToPage, { kind: 'decide' }> | undefined;
let focused: HTMLElement | undefined;
let greeting: { needsKey: boolean; element: HTMLElement } | undefined;

function show(): void {
  if (due) return;
  due = true;
  requestAnimationFrame(() => {
    due = false;
    if (frame === undefined) return;
    drawBanner(frame);
    log.draw(view);
    composer.draw(view, frame, status);
    for (const words of takeOrphans(view)) composer.draft(words);
    if (!restored) log.restore();
    restored = true;
    keepFocus();
    if (wanted !== undefined) log.decide(wanted.decision);
    wanted = undefined;
  });
}

/** What had the focus may have been drawn anew, or be gone: else the keys that follow would fall nowhere. */
function keepFocus(): void {
  const isLost = document.activeElement === document.body && focused?.checkVisibility() === false;
  if (isLost && document.hasFocus()) composer.focus();
}

document.addEventListener('focusin', ({ target }) => {
  focused = target as HTMLElement;
});
window.addEventListener('message', ({ data }: MessageEvent<ToPage>) => {
  switch (data.kind) {
    case 'view':
      if (session !== data.session || view !== EMPTY) log.reset();
      ({ view, frame, session, status } = { session: undefined, status: undefined, ...data });
      break;
    case 'values':
      view = data.values.reduce(fold, view);
      break;
    case 'status':
      status = data.status;
      break;
    case 'frame':
      frame = data.frame;
      break;
    case 'files':
      composer.showFiles(data.query, data.files);
      break;
    case 'sent':
      takeOnce(data.id, () => composer.sent(data.text, data.error));
      break;
    case 'decide':
      wanted = data;
      break;
    case 'draft':
      takeOnce(data.id, () => composer.draft(data.text));
      break;
    case 'focus':
      composer.focus();
      break;
  }
  show();
});
window.addEventListener('focus', () => post({ kind: 'focused', focused: true }));
window.addEventListener('blur', () => post({ kind: 'focused', focused: false }));
post({ kind: 'ready' });

function drawBanner({ connection, trusted }: Frame): void {
  const parts: Node[] = [];
  if (connection.kind === 'starting')
    parts.push(icon('loading codicon-modifier-spin'), el('span', {}, 'Starting the server'));
  if (connection.kind === 'missing') {
    parts.push(icon('warning'), el('span', {}, 'No server was found.'));
    parts.push(button('Install', () => run('dsh.ui.installServer'), { class: 'primary' }));
  }
  if (connection.kind === 'noFolder') {
    parts.push(icon('folder'), el('span', {}, 'Open a folder: the agent works on one.'));
    parts.push(button('Open Folder', () => run('dsh.ui.openFolder'), { class: 'primary' }));
  }
  if (connection.kind === 'stopped') {
    parts.push(
      icon('error'),
      el('span', {}, connection.restarts ? `${connection.reason} It is started again.` : connection.reason),
    );
    if (!connection.restarts) parts.push(button('Restart', () => run('dsh.ui.restartServer'), { class: 'primary' }));
    parts.push(button('Log', () => run('dsh.ui.showLog'), { class: 'secondary' }));
  }
  if (parts.length === 0 && !trusted)
    parts.push(icon('shield'), el('span', {}, 'Restricted: the agent reads and explains; it edits nothing.'));
  const key = JSON.stringify([connection, trusted]);
  if (banner.dataset.key === key) return;
  banner.dataset.key = key;
  banner.className = connection.kind === 'stopped' || connection.kind === 'missing' ? 'bad' : '';
  banner.replaceChildren(...parts);
}

/** Drawn anew only when it says something else: a screen reader hears it, and what has the focus stays. */
function welcome(): HTMLElement {
  const needsKey = frame?.needsKey === true && !frame.hasKey;
  if (greeting?.needsKey !== needsKey) greeting = { needsKey, element: drawWelcome(needsKey) };
  return greeting.element;
}

function drawWelcome(needsKey: boolean): HTMLElement {
  const examples = [
    'Explain what this project does',
    'Find out why a test fails and mend it',
    'Write a test for the open file',
  ];
  const key = el(
    'div',
    { class: 'setup' },
    el('p', {}, 'The model needs a key before it can answer.'),
    el(
      'div',
      { class: 'actions' },
      button('Set API Key', () => run('dsh.ui.setApiKey'), { icon: 'key', class: 'primary' }),
      button('Use the Demo', () => run('dsh.ui.useDemo'), { icon: 'beaker', class: 'secondary' }),
    ),
  );
  const begin = (text: string) => () => {
    composer.draft(text);
    composer.focus();
  };
  const list = el(
    'ul',
    { class: 'examples' },
    ...examples.map((text) => el('li', {}, button(text, begin(text), { class: 'link' }))),
  );
  return el(
    'div',
    { class: 'welcome' },
    icon('comment-discussion'),
    el('h2', {}, 'Ask DSH'),
    el('p', {}, 'It works in your buffers, unsaved text included. Each of its edits waits for your review.'),
    needsKey ? key : list,
  );
}
