/** Commands: what they do, in order. */

import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { setTimeout as after } from 'node:timers/promises';
import { COMMANDS, type Parts } from '../src/commands.ts';
import { user } from './fake_vscode.ts';

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
