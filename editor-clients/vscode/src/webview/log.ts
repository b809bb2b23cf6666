/**
 * Log: draws the turns, only what is new of them, and keeps its place while more comes.
 *
 * Rules: an item is drawn again only when it is another one; what the user has folded or unfolded stays so; the end is
 * followed as long as the user is there.
 */

import type { Decision } from '../protocol.ts';
import type { Item, SessionView, Turn } from '../view.ts';
import { button, el } from './dom.ts';
import { draw } from './items.ts';
import { keyOf, LiveBlock } from './live.ts';
import { keep, kept, run } from './page.ts';

const NEAR_END = 48; // pixels
const SEEN_MS = 400; // a key that was meant for what stood there before decides nothing
const WAITS = '.approval.waits';

type DrawnTurn = { element: HTMLElement; items: Item[]; turn: Turn | undefined; end: HTMLElement };

export class Log {
  readonly element = el('div', {
    id: 'log',
    role: 'log',
    'aria-live': 'polite',
    'aria-label': 'Conversation',
    tabindex: 0,
  });
  readonly #live = el('div', { id: 'live', 'aria-live': 'off' });
  readonly #toEnd = button('Latest', () => this.#goToEnd(), { icon: 'arrow-down', class: 'secondary to-end' });
  readonly #empty: () => HTMLElement;
  #turns: DrawnTurn[] = [];
  #blocks: LiveBlock[] = [];
  #atEnd = true;

  constructor(empty: () => HTMLElement) {
    this.#empty = empty;
    this.#toEnd.hidden = true;
    this.#toEnd.addEventListener('mousedown', (event) => event.preventDefault()); // the focus stays where it is
    this.element.addEventListener('scroll', () => this.#scrolled(), { passive: true });
    this.element.addEventListener('click', (event) => this.#clicked(event), { capture: true });
    // A narrower page has longer text: whoever is at the end stays there.
    new ResizeObserver(() => this.#atEnd && this.scrollToEnd()).observe(this.element);
  }

  get toEnd(): HTMLElement {
    return this.#toEnd;
  }

  /** Forget what was drawn: another session is shown. */
  reset(): void {
    this.#turns = [];
    this.#blocks = [];
    this.#live.replaceChildren();
    this.element.replaceChildren();
    this.#atEnd = true;
  }

  draw(view: SessionView): void {
    if (view.turns.length === 0) {
      const empty = this.#empty();
      if (this.element.firstElementChild !== empty) this.element.replaceChildren(empty);
      return;
    }
    if (this.#turns.length === 0) this.element.replaceChildren();
    for (const [index, turn] of view.turns.entries()) this.#drawTurn(turn, index, index === view.turns.length - 1);
    this.#drawLive(view);
    if (this.#atEnd) this.scrollToEnd();
    else this.#toEnd.hidden = false;
  }

  /** Go back to where the user was before the page was thrown away. */
  restore(): void {
    const { scrollTop, atEnd } = kept();
    this.#atEnd = atEnd;
    if (!atEnd) this.element.scrollTop = scrollTop;
  }

  #goToEnd(): void {
    if (document.activeElement === this.#toEnd) this.element.focus({ preventScroll: true });
    this.scrollToEnd();
  }

  scrollToEnd(): void {
    this.#atEnd = true;
    this.#toEnd.hidden = true;
    this.element.scrollTop = this.element.scrollHeight;
  }

  /** Decide on the permission that waits longest, if all of it has been on the screen; else show the next part. */
  decide(decision?: Decision): void {
    const waiting = this.element.querySelector<HTMLElement>(WAITS);
    if (waiting === null) return;
    const { shown, screen } = this.#sight(waiting);
    const endsInSight = shown.bottom <= screen.bottom + 1;
    if (decision !== undefined && isOld(waiting) && endsInSight && this.#isSeen(waiting))
      waiting.querySelector<HTMLElement>(`[data-key="${decision}"]`)?.click();
    else this.#show(waiting);
  }

  /** Show the next part of a permission that has not been on the screen. */
  #show(waiting: HTMLElement): void {
    const { shown, screen } = this.#sight(waiting);
    this.element.scrollTop += shown.top - screen.top + Math.min(seenOf(waiting), shown.height - screen.height);
    waiting.dataset.since = `${performance.now()}`;
    waiting.animate({ boxShadow: ['0 0 0 2px var(--vscode-focusBorder)', 'none'] }, 2 * SEEN_MS);
  }

  /** Whether all of a permission has been on the screen, from its top down. */
  #isSeen(waiting: HTMLElement): boolean {
    const { shown, screen } = this.#sight(waiting);
    const seen = seenOf(waiting);
    if (isOld(waiting) && screen.top - shown.top <= seen + 1)
      waiting.dataset.seen = `${Math.max(seen, screen.bottom - shown.top)}`;
    const isInSight = shown.top >= screen.top - 1 && shown.bottom <= screen.bottom + 1;
    return isInSight || seenOf(waiting) >= shown.height - 1;
  }

  #sight(element: HTMLElement): { shown: DOMRect; screen: DOMRect } {
    return { shown: element.getBoundingClientRect(), screen: this.element.getBoundingClientRect() };
  }

  /** Hold back a click that would allow what nobody can have read: it shows the next part. */
  #clicked(event: MouseEvent): void {
    const pressed = (event.target as HTMLElement).closest<HTMLElement>('[data-key^="allow"]');
    const waiting = pressed?.closest<HTMLElement>(WAITS);
    if (!event.isTrusted || !waiting || this.#isSeen(waiting)) return;
    event.stopPropagation();
    this.#show(waiting);
  }

  #scrolled(): void {
    for (const waiting of this.element.querySelectorAll<HTMLElement>(WAITS)) {
      if (isOld(waiting)) this.#isSeen(waiting);
      else setTimeout(() => this.#isSeen(waiting), SEEN_MS);
    }
    const { scrollTop, scrollHeight, clientHeight } = this.element;
    this.#atEnd = scrollHeight - scrollTop - clientHeight < NEAR_END;
    if (this.#atEnd) this.#toEnd.hidden = true;
    keep({ scrollTop, atEnd: this.#atEnd });
  }

  #drawTurn(turn: Turn, index: number, last: boolean): void {
    let drawn = this.#turns[index];
    if (drawn === undefined) {
      const end = el('div', { class: 'turn-end' });
      const element = el('section', { class: 'turn', 'aria-label': `Turn ${turn.turn}` }, end);
      drawn = { element, items: [], turn: undefined, end };
      this.#turns.push(drawn);
      this.element.append(element);
    }
    drawn.element.classList.toggle('last', last);
    if (drawn.turn === turn) return;
    turn.items.forEach((item, at) => {
      if (drawn.items[at] === item) return;
      const next = draw(item);
      const before = drawn.element.children[at];
      if (before === undefined || before === drawn.end) drawn.element.insertBefore(next, drawn.end);
      else replace(before as HTMLElement, next);
    });
    drawn.items = turn.items;
    drawn.turn = turn;
    drawn.end.replaceChildren(...endOf(turn));
  }

  #drawLive(view: SessionView): void {
    const last = this.#turns.at(-1);
    if (last !== undefined && this.#live.parentElement !== last.element.parentElement)
      this.element.append(this.#live);
    else if (this.#live.nextSibling !== null) this.element.append(this.#live);
    const keys = view.live.map(keyOf);
    if (this.#blocks.some((block, index) => block.key !== keys[index])) {
      this.#blocks = [];
      this.#live.replaceChildren();
    }
    view.live.forEach((live, index) => {
      let block = this.#blocks[index];
      if (block === undefined) {
        block = new LiveBlock(live);
        this.#blocks.push(block);
        this.#live.append(block.element);
      }
      block.draw(live.text);
    });
    const thinks = last?.turn?.ended === undefined && view.live.length === 0 && !waits(last?.turn);
    this.#live.classList.toggle('thinks', thinks);
  }
}

/** Whether a permission stands where it stands long enough to have been seen there. */
function isOld(waiting: HTMLElement): boolean {
  return performance.now() - Number(waiting.dataset.since) >= SEEN_MS;
}

/** How much of a permission has been on the screen: pixels from its top. */
function seenOf(waiting: HTMLElement): number {
  return Number(waiting.dataset.seen ?? 0);
}

function waits(turn: Turn | undefined): boolean {
  return (turn?.items ?? []).some(
    (item) =>
      (item.kind === 'approval' && item.outcome === undefined) ||
      (item.kind === 'question' && !item.closed) ||
      (item.kind === 'tool' && item.state === 'running') ||
      (item.kind === 'review' && item.files.some((file) => file.hunks.some((hunk) => hunk.outcome === undefined))),
  );
}

/** Put an element in another's place; what was unfolded stays so, and the focus stays where it was. */
function replace(before: HTMLElement, next: HTMLElement): void {
  for (const old of [before, ...before.querySelectorAll('details')]) {
    const fold = old.dataset.fold;
    if (!(old instanceof HTMLDetailsElement) || fold === undefined) continue;
    const same = [next, ...next.querySelectorAll('details')].find((one) => one.dataset.fold === fold);
    if (same instanceof HTMLDetailsElement && old.dataset.touched !== undefined) {
      same.open = old.open;
      same.dataset.touched = '';
    }
  }
  const had = before.contains(document.activeElement) ? (document.activeElement as HTMLElement) : undefined;
  before.replaceWith(next);
  if (had === undefined) return;
  const { key } = had.dataset;
  const same = key === undefined ? null : next.querySelector(`[data-key="${CSS.escape(key)}"]`);
  const place = same ?? next.querySelector('summary') ?? document.getElementById('input');
  (place as HTMLElement | null)?.focus(); // else the keys that follow would fall nowhere
}

/** Note which folds the user has moved by hand. */
document.addEventListener(
  'click',
  ({ target }) => {
    const summary = (target as HTMLElement).closest?.('summary');
    if (summary?.parentElement instanceof HTMLDetailsElement) summary.parentElement.dataset.touched = '';
  },
  true,
);

const ENDS: Record<string, string> = {
  aborted: 'Stopped',
  error: 'Failed',
  'max-tokens': 'The answer reached its token limit',
  'max-steps': 'The turn reached its step limit',
};

function endOf(turn: Turn): Node[] {
  if (turn.ended === undefined) return [];
  const parts: Node[] = [];
  if (turn.ended !== 'completed') {
    const words = ENDS[turn.ended] ?? turn.ended;
    const isSaid = turn.items.some((item) => item.kind === 'failure' && item.message === turn.message);
    const message = turn.message && turn.message !== words && !isSaid ? `: ${turn.message}` : '';
    parts.push(el('p', { class: `ended ${turn.ended === 'error' ? 'bad' : ''}` }, `${words}${message}`));
  }
  const edited = turn.items.some(
    (item) => item.kind === 'review' && item.files.some((file) => file.hunks.some((hunk) => hunk.landed)),
  );
  const actions = el(
    'div',
    { class: 'turn-actions' },
    turn.ended !== 'completed' &&
      button('Retry', () => run('dsh.ui.retry'), { icon: 'refresh', class: 'link only-last' }),
    edited && button('Rewind edits', () => run('dsh.ui.rewindTurn', turn.turn), { icon: 'discard', class: 'link' }),
    button('Fork here', () => run('dsh.ui.forkSession', turn.turn), { icon: 'repo-forked', class: 'link' }),
  );
  return [...parts, actions];
}
