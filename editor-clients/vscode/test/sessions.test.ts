/** Sessions: which one words go to while it is being made. */

import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { setTimeout as after } from 'node:timers/promises';
import { Left } from '../src/errors.ts';
import { rowOf, Sessions } from '../src/sessions.ts';
import { Store } from '../src/store.ts';
import { Uri, user, workspace } from './fake_vscode.ts';

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

test('of two sessions that are chosen one after the other the last one is shown and kept', async () => {
  const kept = new Map<string, unknown>();
  const store = new Store();
  const answers = new Map<string, (error?: Error) => void>();
  const run = (_: string, { session }: { session: string }) =>
    new Promise((resolve, reject) => {
      const answer = { summary: { session, root: `/${session}` }, lastSeq: 0 };
      answers.set(session, (error) => (error ? reject(error) : resolve(answer)));
    });
  const sessions = new Sessions({
    client: { start: async () => {}, run } as never,
    store,
    kept: { get: () => undefined, update: async (key: string, value: unknown) => kept.set(key, value) } as never,
    log: {} as never,
  });
  const says = (session: string) =>
    store.take({ dsh: 1, session, seq: 0, time: 0, type: 'session/title', data: { title: `That of ${session}` } });
  for (const end of [undefined, new Error('another window has it')]) {
    const first = sessions.open('first').catch(() => {});
    const second = sessions.open('second');
    says('second');
    answers.get('first')?.(end);
    await first;
    answers.get('second')?.();
    await second;
    assert.deepEqual([store.session, store.view.title], ['second', 'That of second']);
    assert.deepEqual([sessions.root, [...kept.values()]], ['/second', ['second']]);
    store.clear('other');
    kept.clear();
  }
});

test('whoever leaves the choice of a folder has begun no session', async () => {
  workspace.workspaceFolders = [
    { uri: Uri.file('/one'), name: 'one' },
    { uri: Uri.file('/two'), name: 'two' },
  ];
  const ran: string[] = [];
  const sessions = new Sessions({
    client: { start: async () => {}, run: async (command: string) => ran.push(command) } as never,
    store: new Store(),
    kept: { get: () => undefined, update: async () => {} } as never,
    log: {} as never,
  });
  await assert.rejects(sessions.current(), Left);
  assert.deepEqual(ran, []);
});

test('a title is read as it was written, whatever an editor takes for an icon', () => {
  const summary = {
    session: 's',
    title: '$(document) is slow',
    root: '/project',
    createdAt: 0,
    updatedAt: 0,
    turns: 1,
  };
  assert.equal(rowOf(summary, undefined).label, '\\$(document) is slow');
  assert.equal(rowOf(summary, 's').label, '$(check) \\$(document) is slow');
});
