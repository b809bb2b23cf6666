/** Commands: what they do, in order. */

import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { setTimeout as after } from 'node:timers/promises';
import { COMMANDS, type Parts, turnHasEnded } from '../src/commands.ts';
import { Store } from '../src/store.ts';
import { EventEmitter, user } from './fake_vscode.ts';

let done: string[];
let parts: Parts;

beforeEach(() => {
  user.begin();
  done = [];
  const notes = (what: string) => async () => {
    await after(1);
    done.push(what);
  };
  parts = {
    chat: { open: notes('the cursor is in the input'), refresh: async () => {} },
    restarts: { whenIdle: notes('the server knows') },
    sessions: { create: notes('the session is there') },
    store: { session: 'before' },
  } as never as Parts;
});

test('the cursor is in the input before a new session is there, so that no key of its first words is lost', async () => {
  await COMMANDS['dsh.ui.newSession']?.(parts);
  assert.deepEqual(done, ['the cursor is in the input', 'the session is there']);
});

test('the chat opens before the server starts again for the demo, and takes no focus after that', async () => {
  await COMMANDS['dsh.ui.useDemo']?.(parts);
  assert.equal(user.settings.get('dsh.model.provider'), 'demo');
  assert.deepEqual(done, ['the cursor is in the input', 'the server knows', 'the session is there']);
});

test('a server that has stopped for good in mid-turn is not waited for', async () => {
  const store = new Store();
  store.take({ dsh: 1, session: 's', time: 0, type: 'turn/start', data: { turn: 1 } });
  const changed = new EventEmitter<unknown>();
  const client = { connection: { kind: 'running' }, onDidChangeConnection: changed.event };
  let ended = false;
  const waits = turnHasEnded(store, client as never).then(() => {
    ended = true;
  });
  await after(20);
  assert.equal(ended, false);
  client.connection = { kind: 'stopped' };
  changed.fire(client.connection);
  await waits;
  await turnHasEnded(store, client as never);
});
