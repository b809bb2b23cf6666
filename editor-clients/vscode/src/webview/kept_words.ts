/**
 * Kept words: what a user has begun to write where the page asks for something: answers, comments, edits of what waits.
 *
 * Rules: they outlive the page, which is thrown away when it is hidden; what is not sent when its place is over is
 * theirs still.
 */

import type { Item, SessionView } from '../view.ts';
import { el } from './dom.ts';
import { keep, kept } from './page.ts';

export function keptWords(id: string): string | undefined {
  return kept().words?.[id];
}

export function keepWords(id: string, text: string): void {
  const { [id]: _, ...others } = kept().words ?? {};
  keep({ words: text === '' ? others : { ...others, [id]: text } });
}

/** An input of one line, whose words are kept. */
export function wordsInput(id: string, label: string): HTMLInputElement {
  const input = el('input', {
    type: 'text',
    class: 'comment',
    placeholder: label,
    'aria-label': label,
  }) as HTMLInputElement;
  input.value = keptWords(id) ?? '';
  input.addEventListener('input', () => keepWords(id, input.value));
  return input;
}

/** Forget the words of what is over; those that did not go with it. */
export function takeOrphans(view: SessionView): string[] {
  const words = Object.entries(kept().words ?? {});
  if (words.length === 0) return [];
  const over = new Map(view.turns.flatMap(({ items }) => items.flatMap(endOf)));
  return words.flatMap(([id, text]) => {
    if (!over.has(id)) return [];
    keepWords(id, '');
    return text.trim() === '' || text.trim() === over.get(id) ? [] : [text.trim()];
  });
}

/** What was written for good, if an item is over: a message that waited is one of the turn's. */
function endOf(item: Item): [id: string, text: string | undefined][] {
  switch (item.kind) {
    case 'approval':
      return item.outcome === undefined ? [] : [[item.id, item.comment]];
    case 'question':
      return item.closed ? [[item.id, item.answer]] : [];
    case 'user':
      return [[item.id, item.text]];
    default:
      return [];
  }
}
