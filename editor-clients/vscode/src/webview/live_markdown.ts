/**
 * Live Markdown: Markdown that still streams, drawn block by block as it comes.
 *
 * Rules: what one frame costs does not grow with what has streamed: a block that is whole is drawn once and for ever, a
 * list grows by its items, code and long paragraphs by pieces. It reads as `markdown` would draw the whole text, but
 * for what later lines decide about earlier ones, which is put right when the message comes.
 */

import { el } from './dom.ts';
import {
  fenceStart,
  indentOf,
  interrupts,
  isBlank,
  isHeading,
  isRule,
  isUndecided,
  type Marker,
  markerOf,
  quoted,
} from './live_grammar.ts';
import { type Block, Code, Paragraph, PIECE } from './live_leaves.ts';
import { markdown } from './markdown.ts';

const DEEPEST = 12; // blocks in one another; what is deeper is drawn as text

export class LiveMarkdown {
  readonly #flow: Flow;
  #partial = '';
  /** The line that is being read was too long to be waited for. */
  #isCut = false;

  constructor(place: HTMLElement) {
    this.#flow = new Flow(place, DEEPEST);
  }

  /** Take what has come since. */
  add(text: string): void {
    const lines = (this.#partial + text).split('\n');
    this.#partial = lines.pop() ?? '';
    for (const line of lines) {
      this.#take(line.replace(/\r$/, ''));
      this.#isCut = false;
    }
    if (this.#isCut || this.#partial.length > PIECE) {
      this.#take(this.#partial);
      this.#partial = '';
      this.#isCut = true;
    }
    this.#flow.draw(this.#isCut ? undefined : this.#partial);
  }

  #take(line: string): void {
    if (this.#isCut) this.#flow.extend(line);
    else this.#flow.take(line);
  }
}

/** Blocks one after the other; only the last one may still grow. */
class Flow {
  readonly #place: HTMLElement;
  readonly #deepest: number;
  #block: Block | undefined;
  #preview: HTMLElement | undefined;

  constructor(place: HTMLElement, deepest: number) {
    this.#place = place;
    this.#deepest = deepest;
  }

  /** Whether a line goes on with the last block. */
  continues(line: string): boolean {
    return this.#block?.accepts(line) ?? false;
  }

  /** Whether a line that is not indented belongs to the paragraph here, at whatever depth. */
  continuesLazily(line: string): boolean {
    if (this.#block instanceof Container) return this.#block.continuesLazily(line);
    return this.#block instanceof Paragraph && this.#block.accepts(line) && !interrupts(line);
  }

  take(line: string): void {
    this.#clearPreview();
    const table = this.#block instanceof Paragraph ? this.#block.asTable(this.#place, line) : undefined;
    if (table !== undefined) this.#block = table;
    else if (this.continues(line)) this.#block?.take(line);
    else {
      this.end();
      this.#block = this.#opened(line);
    }
  }

  #opened(line: string): Block | undefined {
    if (isBlank(line)) return undefined;
    const place = this.#place;
    const fence = fenceStart(line);
    if (fence !== undefined || indentOf(line) >= 4) return new Code(place, line, fence);
    if (isRule(line) || isHeading(line)) return new Paragraph(place, line, true);
    if (this.#deepest > 0) {
      const inner = (within: HTMLElement) => new Flow(within, this.#deepest - 1);
      if (quoted(line) !== undefined) return new Quote(place, line, inner);
      const marker = markerOf(line);
      if (marker !== undefined) return new List(place, line, marker, inner);
    }
    return new Paragraph(place, line, false);
  }

  extend(text: string): void {
    this.#block?.extend(text);
  }

  draw(partial?: string): void {
    this.#clearPreview();
    const isCode = this.#block instanceof Code && this.#block.accepts(partial ?? '');
    const shown = partial !== undefined && (isCode || !isUndecided(partial)) ? partial : undefined;
    const goesOn = shown !== undefined && this.continues(shown);
    this.#block?.draw(goesOn ? shown : undefined);
    if (shown === undefined || goesOn) return;
    this.#preview = el('div', { class: 'preview' });
    this.#preview.append(markdown(shown));
    this.#place.append(this.#preview);
  }

  #clearPreview(): void {
    this.#preview?.remove();
    this.#preview = undefined;
  }

  end(): void {
    this.#clearPreview();
    this.#block?.end();
    this.#block = undefined;
  }
}

type Inner = (within: HTMLElement) => Flow;

abstract class Container implements Block {
  protected abstract readonly flow: Flow;
  abstract accepts(line: string): boolean;
  abstract take(line: string): void;
  abstract draw(partial?: string): void;

  continuesLazily(line: string): boolean {
    return this.flow.continuesLazily(line);
  }

  extend(text: string): void {
    this.flow.extend(text);
  }

  end(): void {
    this.flow.end();
  }
}

class Quote extends Container {
  protected readonly flow: Flow;

  constructor(place: HTMLElement, line: string, inner: Inner) {
    super();
    const element = el('blockquote');
    place.append(element);
    this.flow = inner(element);
    this.take(line);
  }

  accepts(line: string): boolean {
    return quoted(line) !== undefined || this.continuesLazily(line);
  }

  take(line: string): void {
    this.flow.take(quoted(line) ?? line);
  }

  draw(partial?: string): void {
    this.flow.draw(partial === undefined ? undefined : (quoted(partial) ?? partial));
  }
}

class List extends Container {
  protected flow: Flow;
  readonly #element: HTMLElement;
  readonly #inner: Inner;
  readonly #type: string;
  #offset: number;
  #afterBlank = false;
  #preview: Element | undefined;

  constructor(place: HTMLElement, line: string, marker: Marker, inner: Inner) {
    super();
    const { type, start, offset } = marker;
    const tag = start === undefined ? 'ul' : 'ol';
    // Whether it is a loose one is known later; until then its paragraphs stand close together.
    this.#element = el(tag, { class: 'tight', start: start === 1 ? undefined : start });
    this.#inner = inner;
    this.#type = type;
    this.#offset = offset;
    place.append(this.#element);
    this.flow = this.#begin(line, marker);
  }

  #begin(line: string, { offset }: Marker): Flow {
    const item = el('li');
    this.#element.append(item);
    this.#offset = offset;
    const flow = this.#inner(item);
    flow.take(line.slice(offset));
    return flow;
  }

  /** The marker of a line that begins the next item. */
  #next(line: string): Marker | undefined {
    const marker = indentOf(line) < Math.min(this.#offset, 4) ? markerOf(line) : undefined;
    return marker?.type === this.#type ? marker : undefined;
  }

  accepts(line: string): boolean {
    if (isBlank(line) || indentOf(line) >= this.#offset || this.#next(line) !== undefined) return true;
    return !this.#afterBlank && markerOf(line) === undefined && this.continuesLazily(line);
  }

  take(line: string): void {
    this.#clearPreview();
    if (isBlank(line)) {
      this.#afterBlank = true;
      this.flow.take('');
      return;
    }
    const marker = this.#next(line);
    const own = this.#own(line);
    if (this.#afterBlank && (marker !== undefined || !this.flow.continues(own))) {
      this.#element.classList.remove('tight');
    }
    this.#afterBlank = false;
    if (marker === undefined) {
      this.flow.take(own);
      return;
    }
    this.flow.end();
    this.flow = this.#begin(line, marker);
  }

  #own(line: string): string {
    return indentOf(line) >= this.#offset ? line.slice(this.#offset) : line.trimStart();
  }

  draw(partial?: string): void {
    this.#clearPreview();
    const begins = partial !== undefined && this.#next(partial) !== undefined;
    this.flow.draw(partial === undefined || begins ? undefined : this.#own(partial));
    if (!begins) return;
    this.#preview = markdown(partial).firstElementChild?.firstElementChild ?? undefined;
    if (this.#preview !== undefined) this.#element.append(this.#preview);
  }

  override end(): void {
    this.#clearPreview();
    super.end();
  }

  #clearPreview(): void {
    this.#preview?.remove();
    this.#preview = undefined;
  }
}
