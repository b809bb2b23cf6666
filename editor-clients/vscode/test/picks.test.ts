/** Picks: which models and turns can be chosen. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { modelsOf, pickTurn, typedRow } from '../src/picks.ts';
import { EMPTY, type ReviewItem } from '../src/view.ts';
import { user } from './fake_vscode.ts';

const LISTED = modelsOf(
  { models: ['gpt-4o', 'gpt-4-turbo'].map((name) => ({ provider: 'openai_compatible', name })), failed: [] },
  { provider: 'openai_compatible', name: 'gpt-4o' },
);

test('the model of the session is marked', () => {
  assert.deepEqual(
    LISTED.map(({ label }) => label),
    ['$(check) gpt-4o', 'gpt-4-turbo'],
  );
});

test('a typed name can be chosen although listed names contain it', () => {
  const [row] = typedRow('gpt-4', 'openai_compatible', LISTED);
  assert.equal(row?.name, 'gpt-4');
  assert.equal(row?.alwaysShow, true);
  assert.deepEqual(typedRow('gpt-4o', 'openai_compatible', LISTED), []);
  assert.deepEqual(typedRow('', 'openai_compatible', LISTED), []);
});

test('a turn whose edits have not landed has none to take back', async () => {
  user.begin();
  const hunk = { id: 'h', line: 1, oldText: 'a', newText: 'b', landed: false, outcome: 'rejected' as const };
  const review: ReviewItem = {
    kind: 'review',
    proposal: 'p',
    files: [{ uri: 'file:///project/a.py', kind: 'edit', hunks: [hunk] }],
  };
  const view = { ...EMPTY, turns: [{ turn: 1, step: 1, items: [review], ended: 'completed' }] };
  assert.equal(await pickTurn(view), undefined);
  assert.deepEqual(user.told, ['DSH: no turn of this session has edited anything.']);
});
