/**
 * Moved range: where a part of a text stands after the text was edited.
 *
 * Rules: pure; what is written at an edge of the part does not belong to it, what takes its place does.
 */

import type { Position, Range } from './protocol.ts';

/** One edit of a text: its range, in the text before it, and what came there. */
export type TextEdit = { range: Range; text: string };

/** The range of the same text after edits, which an editor tells last first; undefined if nothing is left of it. */
export function movedRange(range: Range, edits: readonly TextEdit[]): Range | undefined {
  const { start, end } = edits.reduce(movedBy, range);
  return compare(start, end) < 0 ? { start, end } : undefined;
}

function movedBy({ start, end }: Range, edit: TextEdit): Range {
  const { start: from, end: to } = edit.range;
  if (compare(from, end) >= 0) return { start, end };
  if (compare(to, start) <= 0) return { start: after(edit, start), end: after(edit, end) };
  const isHeadKept = compare(from, start) > 0;
  const isTailKept = compare(to, end) <= 0;
  const covers = compare(from, start) <= 0 && compare(to, end) >= 0;
  return {
    start: isHeadKept ? start : covers || compare(from, start) === 0 ? from : after(edit, to),
    end: isTailKept ? after(edit, end) : covers ? after(edit, to) : from,
  };
}

/** Where a place behind an edit stands after it. */
function after({ range: { start, end }, text }: TextEdit, place: Position): Position {
  const lines = text.split(/\r\n|\r|\n/);
  const last = lines.at(-1)?.length ?? 0;
  const line = place.line - end.line + start.line + lines.length - 1;
  if (place.line > end.line) return { line, character: place.character };
  const before = lines.length === 1 ? start.character : 0;
  return { line, character: before + last + place.character - end.character };
}

function compare(a: Position, b: Position): number {
  return a.line - b.line || a.character - b.character;
}
