/**
 * Live: text that still streams, drawn as it comes.
 *
 * Rules: what one frame costs does not grow with what has streamed: whole paragraphs are drawn once and for ever, the
 * last one again with each frame until it grows long; from then on text is only added, in pieces of bounded size, since
 * the layout of one ever-growing node costs more with every frame.
 */

import type { LiveText } from '../view.ts';
import { el } from './dom.ts';
import { markdown } from './markdown.ts';

const PIECE = 1_500; // characters

export class LiveBlock {
  readonly element: HTMLElement;
  readonly key: string;
  readonly #kind: LiveText['kind'];
  readonly #tail = el('div', { class: 'tail' });
  #done = 0;
  #piece: Text | undefined;
  #drawn = 0;

  constructor(live: LiveText) {
    this.key = keyOf(live);
    this.#kind = live.kind;
    const body =
      live.kind === 'text' ? el('div', { class: 'markdown live' }) : el('div', { class: 'plain-text live' });
    body.append(this.#tail);
    this.element =
      live.kind === 'text' ? body : folded(live.kind === 'thinking' ? 'Thinking' : 'Writing a call', body);
  }

  draw(text: string): void {
    if (this.#kind === 'text') this.#finishParagraphs(text);
    const rest = text.length - this.#done;
    if (this.#kind === 'text' && this.#piece === undefined && rest <= PIECE) {
      this.#tail.replaceChildren(markdown(text.slice(this.#done)));
      this.#drawn = text.length;
      return;
    }
    if (this.#piece === undefined) {
      this.#tail.replaceChildren();
      this.#drawn = this.#done;
    }
    this.#addPlain(text.slice(this.#drawn));
    this.#drawn = text.length;
  }

  #addPlain(text: string): void {
    for (let from = 0; from < text.length; ) {
      const room = this.#piece === undefined ? 0 : PIECE - this.#piece.length;
      if (this.#piece === undefined || room <= 0) {
        this.#piece = document.createTextNode('');
        this.#tail.append(el('span', { class: 'piece' }, this.#piece));
        continue;
      }
      this.#piece.appendData(text.slice(from, from + room));
      from += room;
    }
  }

  #finishParagraphs(text: string): void {
    const end = lastParagraphEnd(text, this.#done);
    if (end <= this.#done) return;
    this.#tail.before(markdown(text.slice(this.#done, end)));
    this.#tail.replaceChildren();
    this.#piece = undefined;
    this.#done = end;
    this.#drawn = end;
  }
}

export function keyOf({ step, attempt, block }: LiveText): string {
  return `${step}.${attempt}.${block}`;
}

/** Where the last paragraph that cannot change any more ends: a blank line outside of a fence and of a list. */
function lastParagraphEnd(text: string, from: number): number {
  let end = from;
  let fenced = false;
  let at = from;
  let inList = false;
  for (let next = text.indexOf('\n', at); next >= 0; next = text.indexOf('\n', at)) {
    const line = text.slice(at, next);
    if (/^\s*(```|~~~)/.test(line)) fenced = !fenced;
    else if (!fenced && /^\s*([-*+]|\d+[.)])\s/.test(line)) inList = true;
    else if (!fenced && line.trim() !== '' && !/^\s/.test(line)) inList = false;
    at = next + 1;
    if (line.trim() === '' && !fenced && !inList) end = at;
  }
  return end;
}

function folded(title: string, body: HTMLElement): HTMLElement {
  return el('details', { class: 'thinking' }, el('summary', {}, el('span', { class: 'pulse' }, title)), body);
}
