/** Chat: what its page is told, and where its links lead. */

import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { setTimeout as after } from 'node:timers/promises';
import { Chat } from '../src/chat.ts';
import type { FromPage, ToPage } from '../src/chat_messages.ts';
import { Context } from '../src/context.ts';
import { Store } from '../src/store.ts';
import { EventEmitter, Uri, user } from './fake_vscode.ts';

/** A page that is thrown away when it is hidden, as the editor does. */
class FakePage {
  readonly told: ToPage[] = [];
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
let answer: (accepted: object) => void;
const settled = () => after(5);

beforeEach(async () => {
  user.begin({});
  page = new FakePage();
  const run = () =>
    new Promise((resolve) => {
      answer = resolve;
    });
  chat = new Chat({
    root: Uri.file('/extension') as never,
    client: { run, connection: { kind: 'running' }, onDidChangeConnection: new EventEmitter().event } as never,
    store: new Store(),
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
  assert.deepEqual(
    page.told.filter(({ kind }) => kind === 'sent'),
    [{ kind: 'sent', text: 'Mend it.' }],
  );
});

test('paths and links are of the folder that the session is about', async () => {
  page.say({ kind: 'open', path: 'there.py' });
  page.say({ kind: 'link', href: 'pkg/there.py:2' });
  await settled();
  assert.deepEqual(user.opened, [{ path: '/second/there.py' }, { path: '/second/pkg/there.py', line: 1 }]);
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
