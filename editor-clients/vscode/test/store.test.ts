/** Store: which session is shown, and that others change nothing. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Status, StreamValue } from '../src/protocol.ts';
import { Store } from '../src/store.ts';

function value(session: string, seq: number, text = 'A title'): StreamValue {
  return { dsh: 1, session, seq, time: 0, type: 'session/title', data: { title: text } } as unknown as StreamValue;
}

const status = (session: string) => ({ session, state: 'running' }) as unknown as Status;

test('where no session is shown, the first word of a new one makes it the current one', () => {
  const store = new Store();
  store.take(value('first', 0));
  assert.equal(store.session, 'first');
  assert.equal(store.view.title, 'A title');
});

test('what a session says while its replay is on its way is shown once, in its place', () => {
  const store = new Store();
  const started = (seq: number, turn: number) => ({ ...value('old', seq), type: 'turn/start', data: { turn } });
  const replay = store.beginReplay('old');
  store.take(started(7, 2));
  for (const again of [value('old', 0), started(3, 1), started(7, 2), value('old', 8, 'Another title')]) {
    store.take(again);
  }
  store.endReplay(replay);
  assert.deepEqual(
    store.view.turns.map(({ turn }) => turn),
    [1, 2],
  );
  assert.equal(store.view.title, 'Another title');
});

test('when the session that is shown is deleted, one that works on in the background does not take its place', () => {
  const store = new Store();
  store.take(value('background', 0));
  store.clear('shown');
  store.take(value('background', 1));
  store.take(value('shown', 0));
  store.clear();
  store.take(value('background', 2, 'Another title'));
  store.takeStatus(status('background'));
  assert.equal(store.session, undefined);
  assert.equal(store.view.title, undefined);
  assert.equal(store.status, undefined);
  store.take(value('new', 0));
  assert.equal(store.session, 'new');
});

test('a session that is shown again has the status that it had, or has got meanwhile', () => {
  const store = new Store();
  const said = (session: string, paused: boolean) => store.takeStatus({ ...status(session), paused });
  const paused = () => store.status?.paused;
  store.clear('first');
  said('first', true);
  store.clear('second');
  assert.equal(paused(), undefined);
  store.clear('first');
  assert.equal(paused(), true);
  store.clear('second');
  said('first', false);
  assert.equal(paused(), undefined);
  store.clear('first');
  assert.equal(paused(), false);
});
