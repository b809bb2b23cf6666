/** Session: the fold comes to the views that the Python reference came to, at every checkpoint of every transcript. */

import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { StreamValue } from '../src/protocol.ts';
import { fold } from '../src/session.ts';
import { EMPTY, newNameOf, type SessionView, stateOf, waitingFor } from '../src/view.ts';

const FOLDER = join(import.meta.dirname, '../../../tests/transcripts');
const NAMES = readdirSync(FOLDER)
  .filter((name) => name.endsWith('.jsonl'))
  .map((name) => name.replace('.jsonl', ''));

type Checkpoint = { after: number; state: string; waitingFor?: string; view: SessionView };

function valuesOf(name: string): StreamValue[] {
  const lines = readFileSync(join(FOLDER, `${name}.jsonl`), 'utf8')
    .trim()
    .split('\n');
  return lines.map((line) => JSON.parse(line) as StreamValue);
}

/** A view as JSON; a flag that is not set may be left out. */
function written(view: SessionView): unknown {
  return JSON.parse(JSON.stringify(view, (_, value) => (value === false ? undefined : value)));
}

test('there are transcripts', () => assert.ok(NAMES.length > 0));

for (const name of NAMES) {
  test(`the fold comes to the reference's views of "${name}"`, () => {
    const checkpoints = JSON.parse(readFileSync(join(FOLDER, `${name}.views.json`), 'utf8')) as Checkpoint[];
    let view = EMPTY;
    let taken = 0;
    const values = valuesOf(name);
    for (const checkpoint of checkpoints) {
      for (; taken < checkpoint.after; taken++) view = fold(view, values[taken] as StreamValue);
      assert.deepEqual(written(view), written(checkpoint.view), `after ${checkpoint.after} values`);
      assert.equal(stateOf(view), checkpoint.state);
      assert.equal(waitingFor(view), checkpoint.waitingFor);
    }
    assert.equal(taken, values.length, 'the last view is of the whole transcript');
  });
}

test('what did not change keeps its identity, so that a screen draws only what is new (an undo changes two)', () => {
  for (const name of NAMES) {
    let view = EMPTY;
    for (const value of valuesOf(name)) {
      const next = fold(view, value);
      const before = view.turns.flatMap((turn) => turn.items);
      const after = next.turns.flatMap((turn) => turn.items);
      const changed = before.filter((item, index) => item !== after[index]).length;
      assert.ok(changed <= 2, `${value.type} replaced ${changed} items`);
      view = next;
    }
  }
});

test('an event that nobody knows changes nothing', () => {
  const value = { dsh: 1, session: 's', time: 0, type: 'some/plugin', data: { any: 'thing' } };
  assert.equal(fold(EMPTY, value), EMPTY);
});

test('a new name has the folders that differ', () => {
  const from = 'file:///project/src/a.py';
  assert.equal(newNameOf(from, 'file:///project/src/b%20c.py'), 'b c.py');
  assert.equal(newNameOf(from, 'file:///project/src/pkg/a.py'), 'pkg/a.py');
  assert.equal(newNameOf(from, 'file:///project/lib/a.py'), 'lib/a.py');
  assert.equal(newNameOf(from, 'file:///project/a.py'), 'a.py');
});
