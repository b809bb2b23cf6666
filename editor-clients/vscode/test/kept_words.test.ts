/** Kept words: what was begun is there until it was sent, or is given back. */

import './fake_dom.ts';

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EMPTY, type Item, type SessionView } from '../src/view.ts';
import { keepWords, keptWords, takeOrphans } from '../src/webview/kept_words.ts';

const shows = (...items: Item[]): SessionView => ({ ...EMPTY, turns: [{ turn: 1, step: 1, items }] });
const question = (answer?: string): Item => ({
  kind: 'question',
  id: 'q',
  text: 'Which?',
  options: [],
  freeText: true,
  closed: answer !== undefined,
  ...(answer ? { answer } : {}),
});
const approval = (outcome?: string): Item => ({
  kind: 'approval',
  id: 'a',
  callId: 'c',
  tool: 'shell',
  effects: [],
  ...(outcome ? { outcome } : {}),
});

test('an answer that was begun waits with its question, and goes with it when it is sent', () => {
  keepWords('q', 'the second ');
  assert.deepEqual(takeOrphans(shows(question())), []);
  assert.deepEqual(takeOrphans(EMPTY), [], 'another session is shown');
  assert.equal(keptWords('q'), 'the second ');
  assert.deepEqual(takeOrphans(shows(question('the second'))), []);
  assert.equal(keptWords('q'), undefined);
});

test('what was written where nothing is asked any more is given back, once', () => {
  keepWords('q', 'neither, since');
  keepWords('a', 'not there');
  keepWords('m', 'Rather the tests.');
  const taken: Item = { kind: 'user', id: 'm', text: 'The tests.', interrupted: false, refused: false };
  const view = shows(question(''), approval('cancelled'), taken);
  assert.deepEqual(takeOrphans(view), ['neither, since', 'not there', 'Rather the tests.']);
  assert.deepEqual(takeOrphans(view), []);
});
