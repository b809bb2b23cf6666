/** Picks: which models can be chosen. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { modelsOf, typedRow } from '../src/picks.ts';

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
