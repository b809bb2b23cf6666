/** Proposal: a file under review as two texts: laws first, then what a user does. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { differences, type Hunk, Proposal } from '../src/proposal.ts';

const FILE = ['a', 'b', 'c', 'd', 'e', 'f'];
const B: Hunk = { id: 'b', start: 1, oldLines: ['b'], newLines: ['B', 'B2'] };
const E: Hunk = { id: 'e', start: 4, oldLines: ['e'], newLines: [] };
const INSERT: Hunk = { id: 'i', start: 3, oldLines: [], newLines: ['new'] };

function proposal(...hunks: Hunk[]): Proposal {
  const made = new Proposal(FILE);
  for (const hunk of hunks) assert.ok(made.add(hunk), `${hunk.id} fits`);
  return shown(made);
}

/** Let the proposal's document follow, as it does when its writes are done. */
function shown(made: Proposal): Proposal {
  made.written(made.right);
  return made;
}

function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return state / 2_147_483_648;
  };
}

/** The file with only the user's own changes of the proposal in it. */
function withOwn(made: Proposal): string[] {
  const lines = [...made.left];
  for (const change of made.changes().reverse()) {
    if (change.id !== undefined) continue;
    const { start, end, lines: own } = made.landing(change);
    lines.splice(start, end - start, ...own);
  }
  return lines;
}

test('the proposal reads as the file does with all hunks', () => {
  assert.deepEqual(proposal(B, INSERT, E).right, ['a', 'B', 'B2', 'c', 'new', 'd', 'f']);
  assert.deepEqual(proposal(E, B, INSERT).right, ['a', 'B', 'B2', 'c', 'new', 'd', 'f']);
});

test('a hunk that overlaps another, or whose lines are not there, does not fit', () => {
  const made = proposal(B);
  assert.equal(made.add({ id: 'x', start: 1, oldLines: ['b', 'c'], newLines: ['x'] }), false);
  assert.equal(made.add({ id: 'y', start: 3, oldLines: ['nothing like it'], newLines: [] }), false);
  assert.deepEqual(made.ids, ['b']);
});

test('text that the user writes into a hunk is a correction of it', () => {
  const made = proposal(B, E);
  assert.equal(made.correction('b'), undefined);
  made.followRight(['a', 'B', 'corrected', 'c', 'd', 'f']);
  assert.deepEqual(made.correction('b'), ['B', 'corrected']);
  assert.equal(made.correction('e'), undefined);
  made.followRight(['a', 'B', 'corrected', 'and more', 'c', 'd', 'instead', 'f']);
  assert.deepEqual(made.correction('b'), ['B', 'corrected', 'and more']);
  assert.deepEqual(made.correction('e'), ['instead']);
});

test('text that the user writes elsewhere is a change of their own, which can be taken back or brought into the file', () => {
  const made = proposal(B);
  made.followRight(['a', 'B', 'B2', 'c', 'd', 'mine', 'e', 'f']);
  const own = made.changes().filter(({ id }) => id === undefined);
  assert.deepEqual(own, [{ id: undefined, left: [4, 4], right: [5, 6] }]);
  assert.deepEqual(withOwn(made), ['a', 'b', 'c', 'd', 'mine', 'e', 'f']);
  for (const change of own) made.undo(change);
  assert.deepEqual(made.right, proposal(B).right);
});

test('an edit across the border of a hunk is divided there, and no line of it is lost', () => {
  const made = proposal(B);
  made.followRight(['A!', 'B!', 'B2!', 'C!', 'd', 'e', 'f']);
  assert.deepEqual(made.correction('b'), ['B!', 'B2!']);
  assert.deepEqual(withOwn(made), ['A!', 'b', 'C!', 'd', 'e', 'f']);
});

test('what is typed into the file outside of the hunks moves the proposal along', () => {
  const made = proposal(B, E);
  made.followLeft(['top', 'a', 'b', 'c!', 'd', 'e', 'f']);
  assert.deepEqual(made.right, ['top', 'a', 'B', 'B2', 'c!', 'd', 'f']);
  assert.deepEqual(
    made.changes().map(({ id, left }) => [id, left]),
    [
      ['b', [2, 3]],
      ['e', [5, 6]],
    ],
  );
});

test('hunks that land together are hunks no more, and the rest stays', () => {
  const made = proposal(B, INSERT, E);
  made.followLeft(['a', 'B', 'B2', 'c', 'new', 'd', 'e', 'f']);
  assert.deepEqual(made.ids, ['e']);
  assert.deepEqual(made.right, ['a', 'B', 'B2', 'c', 'new', 'd', 'f']);
  made.followLeft(['a', 'B', 'B2', 'c', 'new', 'd', 'f']);
  assert.deepEqual(made.changes(), []);
});

test('a rejected hunk leaves the proposal, and the corrections of others stay', () => {
  const made = proposal(B, E);
  made.followRight(['a', 'B', 'mine', 'c', 'd', 'f']);
  made.decide('e');
  assert.deepEqual(made.right, ['a', 'B', 'mine', 'c', 'd', 'e', 'f']);
  assert.deepEqual(made.correction('b'), ['B', 'mine']);
});

test('a line that is written below a hunk is a part of it, although a blank line follows', () => {
  const made = new Proposal(['a', 'b', '', '', 'c']);
  assert.ok(made.add({ id: 'h', start: 1, oldLines: ['b'], newLines: ['B'] }));
  shown(made);
  const end = { line: 1, character: 1 };
  made.followRight(['a', 'B', '', '', '', 'c'], [{ start: end, end, text: '\n' }]);
  const next = { line: 2, character: 0 };
  made.followRight(['a', 'B', 'x', '', '', 'c'], [{ start: next, end: next, text: 'x' }]);
  assert.deepEqual(made.correction('h'), ['B', 'x']);
  assert.deepEqual(made.changes().length, 1);
});

test('what is typed into the file before a write of ours has arrived is not taken for an edit of the proposal', () => {
  const made = proposal(B);
  made.followLeft(['top', ...FILE]);
  const write = [...made.right];
  made.followLeft(['top!', ...FILE]);
  made.written(write);
  assert.deepEqual(made.right, ['top!', 'a', 'B', 'B2', 'c', 'd', 'e', 'f']);
  const at = { line: 2, character: 1 };
  made.followRight(['top', 'a', 'B?', 'B2', 'c', 'd', 'e', 'f'], [{ start: at, end: at, text: '?' }]);
  assert.deepEqual(made.right, ['top!', 'a', 'B?', 'B2', 'c', 'd', 'e', 'f']);
  assert.deepEqual(made.correction('b'), ['B?', 'B2']);
});

test('a change of a hunk that the user makes in the file waits for the word of the server', () => {
  const made = proposal(B);
  made.followLeft(['a', 'b mine', 'c', 'd', 'e', 'f']);
  assert.deepEqual(made.ids, ['b']);
  made.decide('b');
  assert.deepEqual(made.right, ['a', 'b mine', 'c', 'd', 'e', 'f']);
});

test('a hunk fits where the lines above it are those of the user, and not amid their own', () => {
  const made = proposal();
  made.followRight(['mine', 'also mine', ...FILE]);
  assert.ok(made.add(INSERT));
  assert.deepEqual(made.right, ['mine', 'also mine', 'a', 'b', 'c', 'new', 'd', 'e', 'f']);
  const other = proposal();
  other.followRight(['a', 'x', 'f']);
  assert.equal(other.add(INSERT), false);
});

test('law: differences lead from one text to the other', () => {
  for (let seed = 1; seed <= 400; seed++) {
    const next = random(seed);
    const text = () => Array.from({ length: Math.floor(next() * 12) }, () => 'abc'[Math.floor(next() * 3)] ?? 'a');
    const [left, right] = [text(), text()];
    const made = [...left];
    for (const [from, to] of differences(left, right).reverse())
      made.splice(from[0], from[1] - from[0], ...right.slice(...to));
    assert.deepEqual(made, right, `seed ${seed}`);
  }
});

test('law: after any edits on both sides, deciding every hunk and undoing every own change gives the file', () => {
  for (let seed = 1; seed <= 600; seed++) {
    const next = random(seed);
    const pick = (limit: number) => Math.floor(next() * limit);
    const made = proposal(B, INSERT, E);
    const sides = { left: [...made.left], right: [...made.right] };
    for (let step = 0; step < 5; step++) {
      const side = pick(2) === 0 ? 'left' : 'right';
      const lines = side === 'left' ? [...made.left] : [...made.right];
      lines.splice(pick(lines.length + 1), pick(3), ...Array.from({ length: pick(3) }, () => `x${pick(4)}`));
      if (side === 'left') {
        made.followLeft(lines);
        shown(made);
      } else made.followRight(lines);
      sides[side] = lines;
      assert.deepEqual(
        side === 'left' ? made.left : made.right,
        lines,
        `seed ${seed}: the side that was edited reads so`,
      );
    }
    for (const id of made.ids) made.decide(id);
    for (const change of made.changes().reverse()) made.undo(change);
    assert.deepEqual(made.right, made.left, `seed ${seed}`);
    assert.deepEqual(made.left, sides.left, `seed ${seed}`);
  }
});

test('law: the changes are in order, do not overlap, and all of them together are the whole difference', () => {
  for (let seed = 1; seed <= 600; seed++) {
    const next = random(seed * 7);
    const pick = (limit: number) => Math.floor(next() * limit);
    const made = proposal(B, INSERT, E);
    for (let step = 0; step < 4; step++) {
      const lines = [...made.right];
      lines.splice(pick(lines.length + 1), pick(3), ...Array.from({ length: pick(3) }, () => `x${pick(4)}`));
      made.followRight(lines);
    }
    const whole = [...made.left];
    for (const { left, right } of made.changes().reverse()) {
      whole.splice(left[0], left[1] - left[0], ...made.right.slice(...right));
    }
    assert.deepEqual(whole, made.right, `seed ${seed}`);
  }
});

test('law: whatever is written into the file alone, no edit of the user is in the proposal when all hunks are decided', () => {
  for (let seed = 1; seed <= 600; seed++) {
    const next = random(seed * 13);
    const pick = (limit: number) => Math.floor(next() * limit);
    const made = proposal(B, INSERT, E);
    for (let step = 0; step < 3; step++) {
      const lines = [...made.left];
      const start = pick(lines.length);
      const end = Math.min(lines.length - 1, start + pick(4));
      const typed = Array.from({ length: pick(3) }, () => `x${pick(4)}\n`);
      lines.splice(start, end - start, ...typed.map((line) => line.trimEnd()));
      const change = {
        start: { line: start, character: 0 },
        end: { line: end, character: 0 },
        text: typed.join(''),
      };
      made.followLeft(lines, [change]);
      shown(made);
      assert.deepEqual(made.left, lines, `seed ${seed}`);
    }
    for (const id of made.ids) made.decide(id);
    assert.deepEqual(made.right, made.left, `seed ${seed}`);
  }
});
