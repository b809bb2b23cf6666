/** Chat: what its page is told, and where its links lead. */

import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { setTimeout as after } from 'node:timers/promises';
import { Chat } from '../src/chat.ts';
import type { FromPage, ToPage } from '../src/chat_messages.ts';
import { Context } from '../src/context.ts';
import { fold } from '../src/session.ts';
import { Store } from '../src/store.ts';
import { EMPTY, type SessionView } from '../src/view.ts';
import { EventEmitter, Uri, user } from './fake_vscode.ts';

/** A page that is thrown away when it is hidden, as the editor does. */
class FakePage {
  readonly told: ToPage[] = [];
  title: string | undefined;
  visible = true;
  readonly #from = new EventEmitter<FromPage>();
  readonly #hidden = new EventEmitter<void>();
  readonly onDidChangeVisibility = this.#hidden.event;
  readonly onDidDispose = new EventEmitter<void>().event;
  readonly webview = {
    options: {},
    html: '',
    cspSource: '',
    asWebviewUri: (uri: Uri) => uri,
    onDidReceiveMessage: this.#from.event,
    postMessage: async (message: ToPage) => {
      if (this.visible) this.told.push(message);
      return this.visible;
    },
  };

  say(message: FromPage): void {
    this.#from.fire(message);
  }
  show(visible: boolean): void {
    this.visible = visible;
    this.#hidden.fire();
    if (visible) this.say({ kind: 'ready' });
  }
}

let page: FakePage;
let chat: Chat;
let store: Store;
let answer: (accepted: object) => void;
let refuse: (error: unknown) => void;
const settled = () => after(5);
const wordsTold = (kind: 'sent' | 'draft') => page.told.flatMap((one) => (one.kind === kind ? [one.text] : []));

beforeEach(async () => {
  user.begin({ '/second/there.py': '', '/second/pkg/there.py': '', '/second/pkg/logo.png': '' });
  page = new FakePage();
  const run = () =>
    new Promise((resolve, reject) => {
      answer = resolve;
      refuse = reject;
    });
  store = new Store();
  chat = new Chat({
    root: Uri.file('/extension') as never,
    client: { run, connection: { kind: 'running' }, onDidChangeConnection: new EventEmitter().event } as never,
    store,
    sessions: { current: async () => 'session', root: '/second' },
    context: new Context(),
    keys: { has: async () => true },
  });
  chat.resolveWebviewView(page as never);
  page.say({ kind: 'ready' });
  await settled();
});

test('a page that was hidden before its words were accepted is told so when it is there again', async () => {
  page.say({ kind: 'send', how: 'followup', text: 'Mend it.' });
  await settled();
  page.show(false);
  answer({});
  await settled();
  assert.ok(!page.told.some(({ kind }) => kind === 'sent'));
  page.show(true);
  await settled();
  assert.deepEqual(wordsTold('sent'), ['Mend it.']);
});

test('a page that was told and thrown away before it took that leaves it to the next, and what is taken is over', async () => {
  page.say({ kind: 'send', how: 'followup', text: 'Mend it.' });
  await settled();
  answer({});
  await settled();
  page.show(false);
  page.show(true);
  await settled();
  assert.deepEqual(wordsTold('sent'), ['Mend it.', 'Mend it.']);
  for (const message of page.told) if (message.kind === 'sent') page.say({ kind: 'took', id: message.id });
  page.show(false);
  page.show(true);
  await settled();
  assert.equal(wordsTold('sent').length, 2);
});

test('paths and links are of the folder that the session is about', async () => {
  page.say({ kind: 'open', path: 'there.py' });
  page.say({ kind: 'link', href: 'pkg/there.py:2' });
  await settled();
  page.say({ kind: 'link', href: 'pkg/logo.png' });
  page.say({ kind: 'link', href: 'pkg' });
  page.say({ kind: 'link', href: 'pkg/gone.py' });
  await settled();
  assert.deepEqual(user.opened, [
    { path: '/second/there.py' },
    { path: '/second/pkg/there.py', line: 1 },
    { path: '/second/pkg/logo.png' },
  ]);
  assert.deepEqual(user.revealed, ['/second/pkg']);
  assert.deepEqual(user.told, ['DSH: there is no /second/pkg/gone.py']);
});

test('a permission is decided on a page that shows it, and else shown first', async () => {
  page.show(true);
  await settled();
  await chat.decide('allowOnce');
  assert.deepEqual(page.told.at(-1), { kind: 'decide', decision: 'allowOnce' });
  page.show(false);
  page.told.length = 0;
  await chat.decide('allowOnce');
  page.show(true);
  await settled();
  assert.deepEqual(
    page.told.filter(({ kind }) => kind === 'decide'),
    [{ kind: 'decide' }],
  );
});

/** What a page shows that was told so. */
function shownBy(told: ToPage[]): SessionView {
  return told.reduce((view, message) => {
    if (message.kind === 'view') return message.view;
    return message.kind === 'values' ? message.values.reduce(fold, view) : view;
  }, EMPTY);
}

test('a page that is shown while text streams has each piece of it once', async () => {
  const value = (type: string, data: object) => ({ dsh: 1, session: 's', time: 0, type, data });
  const stream = { turn: 1, step: 1, attempt: 1, block: 0, kind: 'text' };
  store.take(value('turn/start', { turn: 1 }));
  page.show(false);
  await after(30);
  store.take(value('assistant/stream', { ...stream, text: 'One ' }));
  page.told.length = 0;
  page.show(true);
  await after(30);
  store.take(value('assistant/stream', { ...stream, text: 'two' }));
  await after(30);
  assert.deepEqual(
    shownBy(page.told).live.map(({ text }) => text),
    ['One two'],
  );
});

test('what was written into a waiting message that is taken meanwhile becomes a draft', async () => {
  page.say({ kind: 'editWaiting', message: 'm', text: 'Rather the tests.' });
  await settled();
  refuse(Object.assign(new Error('it is taken'), { data: { code: 'ALREADY_CLAIMED' } }));
  await settled();
  assert.deepEqual(wordsTold('draft'), ['Rather the tests.']);
});

test('a chat that is opened after its session has the name of it', () => {
  store.take({ dsh: 1, session: 's', time: 0, type: 'session/title', data: { title: 'The sums' } });
  const later = new FakePage();
  chat.resolveWebviewView(later as never);
  assert.equal(later.title, 'The sums');
});
