/**
 * Proposal: one file under review as two texts, the file as it is and the file as it would be, with the hunks between
 * them, each known by its lines on both sides.
 *
 * Rules: pure, in whole lines. Between hunks both texts are equal, but for what the user wrote into the proposal:
 * inside a hunk's lines it is a correction of that hunk, elsewhere it is an edit of their own, which is a change like
 * any other. A change of the file moves the proposal with it; one of a hunk's own lines is a conflict, which the server
 * decides.
 */

export type Hunk = { id: string; start: number; oldLines: string[]; newLines: string[] };

/** One place where the texts differ: `left` and `right` are lines, half open; without an id it is the user's own. */
export type Change = { id: string | undefined; left: [number, number]; right: [number, number] };

/** Lines `start` to `end` of a text were replaced by so many lines. */
export type LineEdit = { start: number; end: number; lines: string[] };

/** A change of a text as an editor tells it; several are told last first. */
export type TextChange = { start: Place; end: Place; text: string };
type Place = { line: number; character: number };

export function linesOf(text: string): string[] {
  return text.split(/\r\n|\r|\n/);
}

type Tracked = { id: string; left: [number, number]; right: [number, number]; newLines: string[] };

export class Proposal {
  #left: string[];
  #right: string[];
  #shown: string[]; // what the proposal's document was last seen to hold
  #hunks: Tracked[] = [];

  /** A file as it is; hunks are added to it. */
  constructor(left: readonly string[]) {
    this.#left = [...left];
    this.#right = [...left];
    this.#shown = [...left];
  }

  get right(): readonly string[] {
    return this.#right;
  }

  get left(): readonly string[] {
    return this.#left;
  }

  /** The hunks that wait, in order. */
  get ids(): string[] {
    return this.#hunks.map((hunk) => hunk.id);
  }

  /** The text that a hunk has now, if the user has corrected it. */
  correction(id: string): string[] | undefined {
    const hunk = this.#hunks.find((one) => one.id === id);
    if (hunk === undefined) return undefined;
    const now = this.#right.slice(...hunk.right);
    return sameLines(now, hunk.newLines) ? undefined : now;
  }

  /** All places where the texts differ, in order: the hunks, and the user's own edits. */
  changes(): Change[] {
    const own: Change[] = [];
    let left = 0;
    let right = 0;
    const between = (leftEnd: number, rightEnd: number) => {
      const found = differences(this.#left.slice(left, leftEnd), this.#right.slice(right, rightEnd));
      for (const [from, to] of found) {
        own.push({ id: undefined, left: [left + from[0], left + from[1]], right: [right + to[0], right + to[1]] });
      }
    };
    for (const hunk of this.#hunks) {
      between(hunk.left[0], hunk.right[0]);
      [left, right] = [hunk.left[1], hunk.right[1]];
    }
    between(this.#left.length, this.#right.length);
    const hunks = this.#hunks.map(({ id, left: l, right: r }): Change => ({ id, left: l, right: r }));
    return [...hunks, ...own].sort((a, b) => a.right[0] - b.right[0] || a.left[0] - b.left[0]);
  }

  /** The proposal's document reads so by our own writing. */
  written(lines: readonly string[]): void {
    this.#shown = [...lines];
  }

  /** The user has edited the proposal's document, which reads `lines` now. */
  followRight(lines: readonly string[], changes: readonly TextChange[] = []): void {
    for (const edit of changes.map((change) => editOf(this.#shown, change))) this.#typed(edit);
    if (!sameLines(this.#shown, lines)) for (const edit of editsBetween(this.#shown, lines)) this.#typed(edit);
  }

  /** An edit in the lines that are shown, which may be behind those of the proposal: a write is on its way. */
  #typed({ start, end, lines }: LineEdit): void {
    const ahead = differences(this.#shown, this.#right);
    const place = (line: number) =>
      line +
      ahead.reduce((sum, [from, to]) => (from[1] <= line ? sum + to[1] - to[0] - (from[1] - from[0]) : sum), 0);
    this.#shown.splice(start, end - start, ...lines);
    const from = Math.min(place(start), this.#right.length);
    const to = Math.max(from, Math.min(place(end), this.#right.length));
    const hunks = this.#hunks.map(({ right }) => right);
    for (const piece of inPieces({ start: from, end: to, lines }, hunks)) this.#editRight(piece);
  }

  #editRight({ start, end, lines }: LineEdit): void {
    this.#right.splice(start, end - start, ...lines);
    const growth = lines.length - (end - start);
    const into = start === end ? this.#hunks.find(({ right }) => right[0] <= start && start <= right[1]) : undefined;
    for (const hunk of this.#hunks) {
      hunk.right = hunk === into ? [hunk.right[0], hunk.right[1] + growth] : moved(hunk.right, start, end, growth);
    }
  }

  /** The file reads `lines` now: what is typed elsewhere is brought along, and what has landed is no hunk any more. */
  followLeft(lines: readonly string[], changes: readonly TextChange[] = []): void {
    for (const change of changes) this.#writtenLeft(trimmed(this.#left, editOf(this.#left, change)));
    if (!sameLines(this.#left, lines)) for (const edit of editsBetween(this.#left, lines)) this.#writtenLeft(edit);
  }

  #writtenLeft(edit: LineEdit): void {
    const hunks = this.#hunks.map(({ left }) => left);
    const lands = this.#hunks.some((hunk) => this.#wouldLand(hunk, edit));
    for (const piece of lands ? [edit] : inPieces(edit, hunks)) this.#editLeft(piece);
  }

  #editLeft({ start, end, lines }: LineEdit): void {
    const growth = lines.length - (end - start);
    const landed = this.#hunks.find((hunk) => this.#wouldLand(hunk, { start, end, lines }));
    const touched = this.#hunks.some(({ left: [from, to] }) =>
      from === to ? start < from && from < end : start < to && from < end,
    );
    const place = landed === undefined && !touched ? this.#toRight(start, end) : undefined;
    this.#left.splice(start, end - start, ...lines);
    this.#hunks = this.#hunks.filter((hunk) => hunk !== landed);
    for (const hunk of this.#hunks) {
      if (place !== undefined && end <= hunk.left[0]) hunk.right = shifted(hunk.right, growth);
      hunk.left = moved(hunk.left, start, end, growth);
    }
    if (place !== undefined) this.#right.splice(place[0], place[1] - place[0], ...lines);
  }

  /** Whether an edit of the file makes it read there as the proposal does. */
  #wouldLand({ left, right }: Tracked, { start, end, lines }: LineEdit): boolean {
    if (start > left[1] || end < left[0]) return false;
    const [from, to] = [Math.min(left[0], start), Math.max(left[1], end)];
    const after = [...this.#left.slice(from, start), ...lines, ...this.#left.slice(end, to)];
    return sameLines(after, this.#right.slice(right[0] - (left[0] - from), right[1] + (to - left[1])));
  }

  /** Where lines of the file stand in the proposal, if the user has left them as they are there. */
  #toRight(start: number, end: number): [number, number] | undefined {
    const changes = this.changes();
    if (changes.some(({ left: [from, to] }) => from < start && end < to)) return undefined;
    const before = changes.findLast(({ left: [from, to] }) => to <= start && from < end);
    const shift = before === undefined ? 0 : before.right[1] - before.left[1];
    const place: [number, number] = [start + shift, end + shift];
    return sameLines(this.#left.slice(start, end), this.#right.slice(...place)) ? place : undefined;
  }

  /** A hunk is decided: it leaves the proposal, unless it stands in the file. */
  decide(id: string): void {
    const hunk = this.#hunks.find((one) => one.id === id);
    if (hunk === undefined) return;
    this.#hunks = this.#hunks.filter((one) => one !== hunk);
    this.undo(hunk);
  }

  /** Take a change back: the proposal reads there as the file does. */
  undo({ left, right }: Pick<Change, 'left' | 'right'>): void {
    const lines = this.#left.slice(...left);
    this.#right.splice(right[0], right[1] - right[0], ...lines);
    const growth = lines.length - (right[1] - right[0]);
    for (const hunk of this.#hunks) {
      const isBehind = left[1] <= hunk.left[0] && right[1] <= hunk.right[0];
      if (isBehind) hunk.right = shifted(hunk.right, growth);
    }
  }

  /** Take one more hunk in; false if it does not fit beside what is there. */
  add({ id, start, oldLines, newLines }: Hunk): boolean {
    const end = start + oldLines.length;
    const apart = this.#hunks.every(({ left }) => end < left[0] || left[1] < start);
    const place = apart ? this.#toRight(start, end) : undefined;
    if (place === undefined || !sameLines(this.#left.slice(start, end), oldLines)) return false;
    this.#right.splice(place[0], place[1] - place[0], ...newLines);
    const growth = newLines.length - oldLines.length;
    for (const hunk of this.#hunks) if (end < hunk.left[0]) hunk.right = shifted(hunk.right, growth);
    this.#hunks.push({ id, left: [start, end], right: [place[0], place[0] + newLines.length], newLines });
    this.#hunks.sort((a, b) => a.left[0] - b.left[0]);
    return true;
  }

  /** What brings the user's own edit into the file. */
  landing({ left, right }: Change): LineEdit {
    return { start: left[0], end: left[1], lines: this.#right.slice(...right) };
  }
}

/** An edit in pieces, last first, each wholly inside a hunk or wholly outside of all, which are lines of the same text. */
function inPieces({ start, end, lines }: LineEdit, hunks: readonly [number, number][]): LineEdit[] {
  const overlapped = hunks.filter(([from, to]) => from < end && start < to);
  const last = overlapped.at(-1);
  if (last === undefined) return [{ start, end, lines }];
  const pieces: LineEdit[] = [];
  const rest = [...lines];
  let at = start;
  const take = (until: number) => {
    if (until > at) pieces.push({ start: at, end: until, lines: rest.splice(0, until - at) });
    at = Math.max(at, until);
  };
  for (const hunk of overlapped) {
    take(hunk[0]);
    if (hunk !== last) take(hunk[1]);
  }
  const until = Math.min(end, last[1]);
  const after = rest.splice(Math.max(0, rest.length - (end - until)));
  pieces.push({ start: at, end: until, lines: rest });
  if (end > until) pieces.push({ start: until, end, lines: after });
  return pieces.reverse();
}

function shifted([from, to]: [number, number], by: number): [number, number] {
  return [from + by, to + by];
}

/** A range of lines after an edit outside of it; one that overlaps it leaves what is around the edit. */
function moved([from, to]: [number, number], start: number, end: number, growth: number): [number, number] {
  if (end <= from) return [from + growth, to + growth];
  if (start >= to) return [from, to];
  return [Math.min(from, start), Math.max(to, end) + growth];
}

/** A change as an edit of whole lines of a text. */
function editOf(text: readonly string[], { start, end, text: inserted }: TextChange): LineEdit {
  const head = (text[start.line] ?? '').slice(0, start.character);
  const tail = (text[end.line] ?? '').slice(end.character);
  return { start: start.line, end: Math.min(end.line + 1, text.length), lines: linesOf(head + inserted + tail) };
}

/** An edit without the lines at its edges that it leaves as they are. */
function trimmed(text: readonly string[], { start, end, lines }: LineEdit): LineEdit {
  let head = 0;
  while (head < end - start && head < lines.length && text[start + head] === lines[head]) head++;
  let tail = 0;
  const room = Math.min(end - start, lines.length) - head;
  while (tail < room && text[end - 1 - tail] === lines[lines.length - 1 - tail]) tail++;
  return { start: start + head, end: end - tail, lines: lines.slice(head, lines.length - tail) };
}

/** The edits that lead from one text to another, last first, so that each is in the lines of the first text. */
function editsBetween(before: readonly string[], after: readonly string[]): LineEdit[] {
  return differences(before, after)
    .map(([from, to]) => ({ start: from[0], end: from[1], lines: after.slice(...to) }))
    .reverse();
}

function sameLines(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((line, index) => line === b[index]);
}

type Difference = [left: [number, number], right: [number, number]];

/** Where two lists of lines differ; equal ends are cut first, so that a few edits in a long text cost little. */
export function differences(left: readonly string[], right: readonly string[]): Difference[] {
  let head = 0;
  while (head < left.length && head < right.length && left[head] === right[head]) head++;
  let tail = 0;
  while (
    tail < left.length - head &&
    tail < right.length - head &&
    left[left.length - 1 - tail] === right[right.length - 1 - tail]
  ) {
    tail++;
  }
  const a = left.slice(head, left.length - tail);
  const b = right.slice(head, right.length - tail);
  if (a.length === 0 && b.length === 0) return [];
  if (a.length * b.length > LONGEST)
    return [
      [
        [head, head + a.length],
        [head, head + b.length],
      ],
    ];
  return aligned(a, b).map(([x, y]) => [
    [x[0] + head, x[1] + head],
    [y[0] + head, y[1] + head],
  ]);
}

const LONGEST = 4_000_000; // cells of the table; beyond it a difference is shown as one

function aligned(a: readonly string[], b: readonly string[]): Difference[] {
  const common = commonLengths(a, b);
  const found: Difference[] = [];
  let [i, j] = [0, 0];
  const same = () => i < a.length && j < b.length && a[i] === b[j];
  while (i < a.length || j < b.length) {
    if (same()) {
      i++;
      j++;
      continue;
    }
    const [fromI, fromJ] = [i, j];
    while ((i < a.length || j < b.length) && !same()) {
      if (j >= b.length || (i < a.length && common(i + 1, j) >= common(i, j + 1))) i++;
      else j++;
    }
    found.push([
      [fromI, i],
      [fromJ, j],
    ]);
  }
  return found;
}

/** The length of the longest common subsequence of what follows two places. */
function commonLengths(a: readonly string[], b: readonly string[]): (i: number, j: number) => number {
  const width = b.length + 1;
  const table = new Uint32Array((a.length + 1) * width);
  const at = (i: number, j: number) => table[i * width + j] ?? 0;
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      table[i * width + j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  return at;
}
