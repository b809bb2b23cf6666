/** Commands: what they do, in order. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as after } from 'node:timers/promises';
import { COMMANDS, type Parts } from '../src/commands.ts';

test('the cursor is in the input before a new session is there, so that no key of its first words is lost', async () => {
  const done: string[] = [];
  const parts = {
    chat: {
      open: async () => {
        await after(1);
        done.push('the cursor is in the input');
      },
    },
    sessions: { create: async () => done.push('the session is there') },
  };
  await COMMANDS['dsh.ui.newSession']?.(parts as never as Parts);
  assert.deepEqual(done, ['the cursor is in the input', 'the session is there']);
});
