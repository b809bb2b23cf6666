/**
 * Outbox: words on their way: one message at a time, and what was sent meanwhile after it.
 *
 * Rules: the input shows a message until it is accepted, so that what is typed meanwhile stands behind it; of one that
 * is refused, and of what follows it, nothing is sent again by itself.
 */

import type { How } from '../chat_messages.ts';

type Message = { how: How; text: string };

export class Outbox {
  readonly #post: (message: Message) => void;
  #going: string | undefined;
  #next: Message | undefined;

  constructor(post: (message: Message) => void) {
    this.#post = post;
  }

  /** Send what the input reads; while a message is on its way, what stands behind that one. */
  send(how: How, words: string): void {
    const text = words.trim();
    if (text === '') return;
    if (this.#going !== undefined) {
      this.#next = { how, text };
      return;
    }
    this.#going = text;
    this.#post({ how, text });
  }

  /** A message was accepted, of this page or of the one before it; what is left of the input's words. */
  accepted(text: string, words: string): string {
    const next = this.#next;
    this.#forget();
    const more = next && behind(text, next.text);
    if (next !== undefined && more !== undefined) this.send(next.how, more);
    return behind(text, words) ?? words;
  }

  refused(): void {
    this.#forget();
  }

  #forget(): void {
    this.#going = undefined;
    this.#next = undefined;
  }
}

function behind(text: string, words: string): string | undefined {
  const begun = words.trimStart();
  return begun.startsWith(text) ? begun.slice(text.length).trimStart() : undefined;
}
