/** Restarts: how often the server starts, and that each change reaches one that runs. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as after } from 'node:timers/promises';
import { Restarts } from '../src/restarts.ts';

const nothing = async () => {};

/** A server that reads a setting when it starts, which takes a moment. */
function server() {
  const made = { setting: 'old', runs: '', starts: 0 };
  const restart = async () => {
    made.runs = made.setting;
    made.starts++;
    await after(20);
  };
  return { made, restart };
}

test('what changes together restarts the server once', async () => {
  const { made, restart } = server();
  const restarts = new Restarts({ idle: nothing, restart, settleMs: 5 });
  await Promise.all([restarts.whenIdle(), restarts.whenIdle()]);
  assert.equal(made.starts, 1);
});

test('a change while the server starts reaches it, too', async () => {
  const { made, restart } = server();
  const restarts = new Restarts({ idle: nothing, restart, settleMs: 5 });
  const first = restarts.whenIdle();
  await after(15);
  assert.equal(made.starts, 1);
  made.setting = 'new';
  await restarts.whenIdle();
  await first;
  assert.equal(made.runs, 'new');
  assert.equal(made.starts, 2);
});

test('a running turn is waited for', async () => {
  const { made, restart } = server();
  let end = () => {};
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });
  const restarts = new Restarts({ idle: () => ended, restart, settleMs: 5 });
  const restarted = restarts.whenIdle();
  await after(20);
  assert.equal(made.starts, 0);
  end();
  await restarted;
  assert.equal(made.starts, 1);
});

test('after a start that failed the next change starts it again', async () => {
  let starts = 0;
  const restart = async () => {
    if (++starts === 1) throw new Error('no');
  };
  const restarts = new Restarts({ idle: nothing, restart, settleMs: 5 });
  await assert.rejects(restarts.whenIdle());
  await restarts.whenIdle();
  assert.equal(starts, 2);
});
