/** Asks: what a user is told of what waits while the chat is not in sight. */

import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { showAsks } from '../src/asks.ts';
import { user } from './fake_vscode.ts';

type Handler = (params: object) => { shown: boolean };

let handlers: Map<string, Handler>;
let visible: boolean;

beforeEach(() => {
  user.begin();
  handlers = new Map();
  visible = false;
  const client = { onRequest: (method: string, handler: Handler) => handlers.set(method, handler) };
  const chat = { noteUnsaved: () => {}, focused: false };
  showAsks(client as never, {
    chat: () => ({ ...chat, visible }) as never,
    reviews: () => ({ showSoon: () => {} }) as never,
  });
});

test('words of a model are no link in a notification, where one could run any command', () => {
  handlers.get('dsh/ask')?.({ question: 'q', text: 'May I [go on](command:workbench.action.quit)?' });
  handlers.get('dsh/approve')?.({ approval: 'a', title: 'may [it](https://example.com) run?' });
  assert.deepEqual(user.told, [
    'DSH: May I [go on] (command:workbench.action.quit)?',
    'DSH: may [it] (https://example.com) run?',
  ]);
});

test('nothing is told of what the chat shows', () => {
  visible = true;
  assert.deepEqual(handlers.get('dsh/ask')?.({ question: 'q', text: 'Which?' }), { shown: true });
  assert.deepEqual(user.told, []);
});
