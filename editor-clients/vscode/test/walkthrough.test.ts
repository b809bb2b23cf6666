/** Walkthrough: which steps the editor ticks, whenever they were done. */

import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { setTimeout as after } from 'node:timers/promises';
import { Walkthrough } from '../src/walkthrough.ts';
import { EventEmitter, user } from './fake_vscode.ts';

let facts: { server: boolean; key: boolean; endpoint: boolean };
let changed: EventEmitter<unknown>;
let walkthrough: Walkthrough;

beforeEach((context) => {
  user.begin();
  facts = { server: false, key: false, endpoint: false };
  changed = new EventEmitter();
  walkthrough = new Walkthrough({
    done: async () => facts,
    changes: [changed.event] as never,
    tellAfterMs: [0, 40],
  });
  (context as { after(run: () => void): void }).after(() => walkthrough.dispose());
});

test('what was done before the walkthrough was opened is ticked, and nothing else', async () => {
  facts.server = true;
  changed.fire(undefined);
  await user.openWalkthrough();
  await after(60);
  assert.deepEqual([...user.ticked], ['dsh.done.server']);
});

test('what is done while it is open is ticked then', async () => {
  await user.openWalkthrough();
  await after(60);
  assert.equal(user.ticked.size, 0);
  facts.key = true;
  changed.fire(undefined);
  await after(60);
  assert.deepEqual([...user.ticked], ['dsh.done.key']);
});

test('no key stays true, since a page that is opened later would never tick it', async () => {
  facts = { server: true, key: true, endpoint: true };
  await user.openWalkthrough();
  await after(60);
  assert.equal(user.ticked.size, 3);
  assert.deepEqual([...user.context.values()], [false, false, false]);
});
