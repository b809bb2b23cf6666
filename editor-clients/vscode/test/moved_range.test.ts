/** Moved range: the same text before and after an edit, wherever that is. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { movedRange } from '../src/moved_range.ts';
import type { Position, Range } from '../src/protocol.ts';

const TEXT = 'ab\ncde\n\nf';

function placeAt(text: string, offset: number): Position {
  const lines = text.slice(0, offset).split('\n');
  return { line: lines.length - 1, character: lines.at(-1)?.length ?? 0 };
}

function rangeAt(text: string, start: number, end: number): Range {
  return { start: placeAt(text, start), end: placeAt(text, end) };
}

/** Where a part, in offsets, is after an edit: what is written inside of it, or over all of it, belongs to it. */
function expected(part: [number, number], edit: [number, number], length: number): [number, number] {
  const [[start, end], [from, to]] = [part, edit];
  const growth = length - (to - from);
  if (from >= end) return part;
  if (to <= start) return [start + growth, end + growth];
  const isWithin = from >= start || to >= end;
  const first = from <= start && (to >= end || from === start) ? from : from > start ? start : from + length;
  const last = to <= end ? end + growth : from <= start ? from + length : from;
  return isWithin ? [first, last] : [from + length, end + growth];
}

test('a range is that of the same text after any one edit', () => {
  const offsets = Array.from({ length: TEXT.length + 1 }, (_, at) => at);
  const pairs = offsets.flatMap((a) => offsets.filter((b) => b >= a).map((b): [number, number] => [a, b]));
  for (const part of pairs.filter(([start, end]) => start < end)) {
    for (const edit of pairs) {
      for (const text of ['', 'x', 'y\n', '\nzz\n']) {
        const next = TEXT.slice(0, edit[0]) + text + TEXT.slice(edit[1]);
        const [start, end] = expected(part, edit, text.length);
        const wanted = start < end ? rangeAt(next, start, end) : undefined;
        const found = movedRange(rangeAt(TEXT, ...part), [{ range: rangeAt(TEXT, ...edit), text }]);
        assert.deepEqual(found, wanted, JSON.stringify({ part, edit, text }));
      }
    }
  }
});

test('edits that come together are taken one after the other, last first', () => {
  const edits = [
    { range: rangeAt(TEXT, 6, 6), text: '!' },
    { range: rangeAt(TEXT, 0, 2), text: 'a\nb' },
  ];
  assert.deepEqual(movedRange(rangeAt(TEXT, 3, 7), edits), {
    start: { line: 2, character: 0 },
    end: { line: 3, character: 0 },
  });
});
