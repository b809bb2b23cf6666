/**
 * Queue: the messages that wait, each of which can be edited or removed.
 *
 * Rules: a row belongs to its message, so that an edit that is open stays open whatever else changes; what is written
 * into a message that is taken meanwhile becomes a draft.
 */

import { runningTurn, type SessionView, type Waiting } from '../view.ts';
import { button, el, iconButton } from './dom.ts';
import { keepWords, keptWords } from './kept_words.ts';
import { post, run } from './page.ts';

type Row = { element: HTMLElement; text: string; where: string; input?: HTMLTextAreaElement };

export class Queue {
  readonly element = el('div', { class: 'queue' });
  readonly #list = el('ul', { 'aria-label': 'Waiting messages' });
  readonly #rows = new Map<string, Row>();
  readonly #orphan: (text: string) => void;
  #drawn = '';

  constructor(orphan: (text: string) => void) {
    this.#orphan = orphan;
  }

  draw(view: SessionView, paused: boolean): void {
    const { nextStep, nextTurn } = view.queue;
    const soon = runningTurn(view) === undefined ? 'goes with your next message' : 'joins at the next step';
    const waiting: [Waiting, string][] = [
      ...nextStep.map((one): [Waiting, string] => [one, soon]),
      ...nextTurn.map((one): [Waiting, string] => [one, 'next turn']),
    ];
    const isPaused = paused && nextTurn.length > 0;
    const key = JSON.stringify([waiting, isPaused]);
    if (key === this.#drawn) return;
    this.#drawn = key;
    this.#dropTaken(new Set(waiting.map(([{ id }]) => id)));
    for (const [index, [message, where]] of waiting.entries()) this.#place(this.#rowOf(message, where), index);
    if (waiting.length === 0) this.element.replaceChildren();
    else if (this.#list.parentElement === null) this.element.replaceChildren(head(isPaused), this.#list);
    else this.element.firstElementChild?.replaceWith(head(isPaused));
  }

  #dropTaken(ids: Set<string>): void {
    for (const [id, { element, input, text }] of this.#rows) {
      if (ids.has(id)) continue;
      if (input !== undefined && input.value.trim() !== text) this.#orphan(input.value.trim());
      if (input !== undefined) keepWords(id, '');
      element.remove();
      this.#rows.delete(id);
    }
  }

  /** A node that is moved loses the focus, so that one in its place stays. */
  #place({ element }: Row, index: number): void {
    const there = this.#list.children[index];
    if (there !== element) this.#list.insertBefore(element, there ?? null);
  }

  #rowOf({ id, text }: Waiting, where: string): Row {
    const known = this.#rows.get(id);
    const row: Row = known ?? { element: el('li', {}), text, where };
    this.#rows.set(id, row);
    const isNew = known?.text !== text || known.where !== where;
    Object.assign(row, { text, where });
    const begun = known === undefined ? keptWords(id) : undefined;
    if (begun !== undefined) this.#edit(id, row, begun);
    else if (isNew && row.input === undefined) this.#show(id, row);
    return row;
  }

  #show(id: string, row: Row): void {
    const { text, where } = row;
    row.element.replaceChildren(
      el(
        'div',
        { class: 'waiting' },
        el('span', { class: 'words', title: text }, text),
        el('span', { class: 'detail' }, where),
      ),
      iconButton('edit', `Edit: ${text}`, () => this.#edit(id, row, text).focus()),
      iconButton('trash', `Remove: ${text}`, () => post({ kind: 'removeWaiting', message: id })),
    );
  }

  #edit(id: string, row: Row, words: string): HTMLTextAreaElement {
    const rows = Math.min(8, words.split('\n').length);
    const input = el('textarea', { rows, 'aria-label': 'Waiting message' }) as HTMLTextAreaElement;
    input.value = words;
    input.addEventListener('input', () => keepWords(id, input.value));
    row.input = input;
    const done = (save: boolean) => {
      const next = input.value.trim();
      delete row.input;
      keepWords(id, '');
      if (save && next !== '' && next !== row.text) post({ kind: 'editWaiting', message: id, text: next });
      this.#show(id, row);
      (row.element.querySelector('button') as HTMLElement | null)?.focus();
    };
    input.addEventListener('keydown', (event) => {
      if (event.isComposing) return;
      if (event.key === 'Enter' && !event.shiftKey) {
        event.preventDefault();
        done(true);
      }
      if (event.key === 'Escape') done(false);
    });
    row.element.replaceChildren(input);
    return input;
  }
}

function head(isPaused: boolean): HTMLElement {
  return el(
    'div',
    { class: 'queue-head' },
    el('span', {}, isPaused ? 'Paused' : 'Waiting'),
    isPaused && button('Resume', () => run('dsh.ui.resumeQueue'), { icon: 'debug-continue', class: 'link' }),
  );
}
