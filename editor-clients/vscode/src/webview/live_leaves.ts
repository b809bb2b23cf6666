/**
 * Live leaves: the blocks of a text that still streams, without others in them: paragraphs, code, tables.
 *
 * Rules: what is whole is drawn once; only a last piece of bounded size is drawn again while it grows, since one
 * ever-growing node costs more with every frame. What spans two pieces is put right when the block or the text ends.
 */

import { el } from './dom.ts';
import { highlighted } from './highlight.ts';
import {
  endsFence,
  type FenceStart,
  interrupts,
  isBlank,
  isTableRule,
  isUnderline,
  withoutIndent,
} from './live_grammar.ts';
import { codeFrame, inlineMarkdown, markdown } from './markdown.ts';

export const PIECE = 1_500; // characters
const CODE_INDENT = 4;

/** A part of the text that may still grow; its element stands in its place from the beginning. */
export interface Block {
  /** Whether a line, or what is there of it, belongs to it. */
  accepts(line: string): boolean;
  take(line: string): void;
  /** The line that was taken last goes on: it is very long. */
  extend(text: string): void;
  /** Show what was taken, and the beginning of the next line, if that is there and belongs to it. */
  draw(partial?: string): void;
  end(): void;
}

/** A growing text in pieces, the last of which is drawn again while it grows. */
export class Pieces {
  readonly #place: HTMLElement;
  readonly #render: (text: string) => Node;
  #tail = el('span', { class: 'piece' });
  #rest = '';
  #drawn = '';

  constructor(place: HTMLElement, render: (text: string) => Node) {
    this.#place = place;
    this.#render = render;
    place.append(this.#tail);
  }

  add(text: string): void {
    this.#rest += text;
    while (this.#rest.length > PIECE) {
      const head = this.#rest.slice(0, PIECE);
      const end = Math.max(head.lastIndexOf('\n'), head.lastIndexOf(' ')) + 1 || PIECE;
      this.#show(head.slice(0, end));
      this.#rest = this.#rest.slice(end);
      this.#tail = el('span', { class: 'piece' });
      this.#drawn = '';
      this.#place.append(this.#tail);
    }
  }

  draw(partial = ''): void {
    this.#show(this.#rest + partial);
  }

  #show(text: string): void {
    if (text === this.#drawn) return;
    this.#drawn = text;
    this.#tail.replaceChildren(this.#render(text));
  }
}

/** A paragraph, or a heading: whatever its lines are when they are read together. */
export class Paragraph implements Block {
  readonly #isLine: boolean;
  #element: HTMLElement = el('p');
  #lines: string[] = [];
  #length = 0;
  #pieces: Pieces | undefined;
  #drawn = '';
  #ended = false;

  constructor(place: HTMLElement, line: string, isLine: boolean) {
    this.#isLine = isLine;
    place.append(this.#element);
    this.take(line);
  }

  accepts(line: string): boolean {
    if (this.#isLine || this.#ended || isBlank(line)) return false;
    return isUnderline(line) || !interrupts(line);
  }

  take(line: string): void {
    this.#add(line, '\n');
    this.#ended = this.#lines.length > 1 && isUnderline(line);
  }

  extend(text: string): void {
    this.#add(text, '');
  }

  #add(text: string, between: string): void {
    const more = this.#length === 0 ? text : between + text;
    this.#length += more.length;
    if (this.#pieces !== undefined) {
      this.#pieces.add(more);
      return;
    }
    this.#lines.push(more);
    if (this.#length <= PIECE) return;
    const next = el('p');
    this.#element.replaceWith(next);
    this.#element = next;
    this.#pieces = new Pieces(next, inlineMarkdown);
    this.#pieces.add(this.#lines.join(''));
  }

  draw(partial?: string): void {
    const more = partial === undefined ? '' : `\n${partial}`;
    if (this.#pieces !== undefined) {
      this.#pieces.draw(more);
      return;
    }
    const text = this.#lines.join('') + more;
    if (text === this.#drawn) return;
    this.#drawn = text;
    const fragment = markdown(text);
    const next = (fragment.firstElementChild as HTMLElement | null) ?? el('p');
    this.#element.replaceWith(next);
    this.#element = next;
  }

  end(): void {
    this.draw();
  }

  /** The table that a line makes of it, in its place: its one line was the head. */
  asTable(place: HTMLElement, line: string): Table | undefined {
    if (this.#lines.length !== 1 || this.#pieces !== undefined || !isTableRule(line)) return undefined;
    const table = Table.of(`${this.#lines[0]}\n${line}`);
    if (table === undefined) return undefined;
    this.#element.remove();
    place.append(table.element);
    return table;
  }
}

/** A fenced block, or one that is indented. */
export class Code implements Block {
  readonly #fence: FenceStart | undefined;
  readonly #code: HTMLElement;
  readonly #pieces: Pieces;
  readonly #language: string;
  #text: string[] = [];
  #ended = false;

  constructor(place: HTMLElement, line: string, fence: FenceStart | undefined) {
    this.#fence = fence;
    this.#language = fence?.language ?? '';
    const { element, code } = codeFrame(this.#language, () => this.#whole);
    this.#code = code;
    this.#pieces = new Pieces(code, (text) => highlighted(text, this.#language));
    place.append(element);
    if (fence === undefined) this.take(line);
  }

  get #whole(): string {
    const text = this.#text.join('');
    return this.#fence === undefined ? text.replace(/\s*$/, '\n') : text;
  }

  accepts(line: string): boolean {
    if (this.#ended) return false;
    if (this.#fence !== undefined) return true;
    return isBlank(line) || withoutIndent(line, CODE_INDENT).length === line.length - CODE_INDENT;
  }

  take(line: string): void {
    if (this.#fence !== undefined && endsFence(line, this.#fence)) {
      this.end();
      return;
    }
    this.extend(this.#text.length === 0 ? this.#inner(line) : `\n${this.#inner(line)}`);
  }

  extend(text: string): void {
    this.#text.push(text);
    this.#pieces.add(text);
  }

  #inner(line: string): string {
    return withoutIndent(line, this.#fence?.indent ?? CODE_INDENT);
  }

  draw(partial?: string): void {
    if (this.#ended) return;
    const mayEnd = partial === undefined || (this.#fence !== undefined && /^\s*[`~]/.test(partial));
    this.#pieces.draw(mayEnd ? '' : `${this.#text.length === 0 ? '' : '\n'}${this.#inner(partial)}`);
  }

  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    if (this.#text.length > 0) this.#text.push('\n');
    this.#code.replaceChildren(highlighted(this.#whole, this.#language));
  }
}

export class Table implements Block {
  readonly element: HTMLElement;
  readonly #head: string;
  readonly #rows = el('tbody');
  #preview: Element | undefined;
  #row = '';

  /** The table whose head and rule these lines are, if they are. */
  static of(head: string): Table | undefined {
    const element = markdown(head).firstElementChild as HTMLElement | null;
    return element?.tagName === 'TABLE' ? new Table(head, element) : undefined;
  }

  private constructor(head: string, element: HTMLElement) {
    this.#head = head;
    this.element = element;
  }

  accepts(line: string): boolean {
    return !isBlank(line) && !interrupts(line);
  }

  take(line: string): void {
    this.#finishRow();
    this.#row = line;
  }

  extend(text: string): void {
    this.#row += text;
  }

  #finishRow(): void {
    const drawn = this.#drawRow(this.#row);
    this.#row = '';
    if (drawn !== undefined) this.#rows.append(drawn);
  }

  #drawRow(row: string): Element | undefined {
    this.#preview?.remove();
    this.#preview = undefined;
    if (row === '') return undefined;
    if (this.#rows.parentElement === null) this.element.append(this.#rows);
    const rows = markdown(`${this.#head}\n${row}`).firstElementChild?.lastElementChild;
    return rows?.firstElementChild ?? undefined;
  }

  draw(partial?: string): void {
    if (this.#row.length <= PIECE) this.#finishRow();
    if (partial === undefined) return;
    this.#preview = this.#drawRow(partial);
    if (this.#preview !== undefined) this.#rows.append(this.#preview);
  }

  end(): void {
    this.#finishRow();
  }
}
