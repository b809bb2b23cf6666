/**
 * Live: text that still streams, drawn as it comes: what the model says as Markdown, the rest as it is.
 *
 * Rules: it is told the whole text each time, and looks only at what is new of it.
 */

import type { LiveText } from '../view.ts';
import { el } from './dom.ts';
import { Pieces } from './live_leaves.ts';
import { LiveMarkdown } from './live_markdown.ts';

const TITLES = { thinking: 'Thinking', toolArguments: 'Writing a call' };

export class LiveBlock {
  readonly element: HTMLElement;
  readonly key: string;
  readonly #add: (text: string) => void;
  #length = 0;

  constructor(live: LiveText) {
    this.key = keyOf(live);
    if (live.kind === 'text') {
      this.element = el('div', { class: 'markdown live' });
      const text = new LiveMarkdown(this.element);
      this.#add = (added) => text.add(added);
      return;
    }
    const body = el('div', { class: 'plain-text live' });
    this.element = folded(TITLES[live.kind], body);
    const pieces = new Pieces(body, (text) => document.createTextNode(text));
    this.#add = (added) => {
      pieces.add(added);
      pieces.draw();
    };
  }

  draw(text: string): void {
    if (text.length === this.#length) return;
    this.#add(text.slice(this.#length));
    this.#length = text.length;
  }
}

export function keyOf({ step, attempt, block }: LiveText): string {
  return `${step}.${attempt}.${block}`;
}

function folded(title: string, body: HTMLElement): HTMLElement {
  return el('details', { class: 'thinking' }, el('summary', {}, el('span', { class: 'pulse' }, title)), body);
}
