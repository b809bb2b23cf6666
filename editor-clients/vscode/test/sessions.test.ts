/** Sessions: which one words go to while it is being made. */

import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { setTimeout as after } from 'node:timers/promises';
import { Sessions } from '../src/sessions.ts';
import { Store } from '../src/store.ts';
import { user } from './fake_vscode.ts';

beforeEach(() => user.begin());

test('one session is made for all who need one before it is there', async () => {
  let made = 0;
  const run = async (command: string, argument: { session?: string }) => {
    await after(5);
    if (command === 'dsh.session.new') return { session: `made-${++made}`, root: '/project' };
    return { summary: { session: argument.session, root: '/project' }, lastSeq: 0 };
  };
  const sessions = new Sessions({
    client: { start: async () => {}, run } as never,
    store: new Store(),
    kept: { get: () => undefined, update: async () => {} } as never,
    log: {} as never,
  });
  assert.deepEqual(await Promise.all([sessions.current(), sessions.current()]), ['made-1', 'made-1']);
  assert.equal(await sessions.current(), 'made-1');
});
