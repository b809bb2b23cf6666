/**
 * Composer: the input: words, what goes with them, and what happens to them: send, steer, queue or stop.
 *
 * Rules: words stay until the server has accepted them; while a turn runs Enter steers it, with Alt it queues.
 */

import type { Chip, Frame, How } from '../chat_messages.ts';
import type { Mode, Status } from '../protocol.ts';
import { runningTurn, type SessionView } from '../view.ts';
import { button, drawParts, el, icon, iconButton, type Part } from './dom.ts';
import { todoRow } from './items.ts';
import { Outbox } from './outbox.ts';
import { keep, kept, post, run } from './page.ts';
import { Queue } from './queue.ts';

const MODE_WORDS: Record<Mode, string> = {
  ask: 'Ask',
  'auto-edit': 'Auto-edit',
  plan: 'Plan',
  'read-only': 'Read-only',
};

export class Composer {
  readonly element = el('div', { id: 'composer' });
  readonly #input = el('textarea', {
    id: 'input',
    rows: 2,
    'aria-describedby': 'hint',
    'aria-autocomplete': 'list', // the role of a combobox is not one for a text of several lines
    'aria-haspopup': 'listbox',
    'aria-controls': 'files',
  }) as HTMLTextAreaElement;
  readonly #chips = el('div', { class: 'chips', role: 'group', 'aria-label': 'Context' });
  readonly #todo = el('div', { class: 'todo-list' });
  readonly #review = el('div', { class: 'review-bar' });
  readonly #queue = new Queue((text) => this.draft(text));
  readonly #outbox = new Outbox((message) => post({ kind: 'send', ...message }));
  readonly #error = el('div', { class: 'send-error', role: 'alert' });
  readonly #files = el('ul', { class: 'files', id: 'files', role: 'listbox', 'aria-label': 'Files' });
  readonly #bar = el('div', { class: 'bar' });
  readonly #hint = el('span', { id: 'hint', class: 'sr' });
  #frame: Frame | undefined;
  #view: SessionView | undefined;
  #status: Status | undefined;
  #found: Chip[] = [];
  #chosen = 0;

  constructor() {
    const label = el('label', { for: 'input', class: 'sr' }, 'Message');
    this.#files.hidden = true;
    const box = el('div', { class: 'box' }, this.#chips, label, this.#input, this.#hint, this.#files, this.#bar);
    this.element.append(this.#todo, this.#review, this.#queue.element, this.#error, box);
    this.#input.value = kept().draft;
    this.#input.addEventListener('input', () => this.#typed());
    this.#input.addEventListener('keydown', (event) => this.#key(event));
    this.#fit();
  }

  focus(): void {
    this.#input.focus();
  }

  /** Words that go before what stands there. */
  draft(text: string): void {
    this.#input.value = this.#input.value.trim() === '' ? text : `${text}\n${this.#input.value}`;
    this.#typed();
  }

  /** What became of words that were sent, by this page or by the one before it. */
  sent(text: string, error: { code?: string; text: string } | undefined): void {
    if (error === undefined) {
      this.#input.value = this.#outbox.accepted(text, this.#input.value);
      this.#error.replaceChildren();
    } else {
      this.#outbox.refused();
      const mend =
        error.code === 'NO_KEY' && button('Set API Key', () => run('dsh.ui.setApiKey'), { class: 'primary' });
      this.#error.replaceChildren(icon('error'), el('span', {}, error.text), ...(mend ? [mend] : []));
    }
    this.#typed();
  }

  draw(view: SessionView, frame: Frame, status: Status | undefined): void {
    const before = { view: this.#view, frame: this.#frame, status: this.#status };
    this.#view = view;
    this.#frame = frame;
    this.#status = status;
    if (before.frame !== frame) this.#drawChips(frame);
    this.#queue.draw(view, status?.paused ?? false);
    if (before.view?.turns.at(-1) !== view.turns.at(-1)) this.#drawReview(view);
    if (before.view?.todo !== view.todo) this.#drawTodo(view);
    this.#drawBar();
  }

  get #running(): boolean {
    return this.#view !== undefined && runningTurn(this.#view) !== undefined;
  }

  // -- typing -------------------------------------------------------------------------------------------------------

  #typed(): void {
    keep({ draft: this.#input.value });
    this.#fit();
    this.#drawBar();
    const query = this.#mention();
    if (query === undefined) this.#hideFiles();
    else post({ kind: 'findFiles', query });
  }

  #fit(): void {
    this.#input.style.height = 'auto';
    this.#input.style.height = `${Math.max(56, Math.min(this.#input.scrollHeight, 240))}px`;
  }

  #key(event: KeyboardEvent): void {
    if (event.isComposing) return; // Enter ends a composition of characters
    if (!this.#files.hidden && this.#fileKey(event)) return;
    if (event.key === 'Enter' && !event.shiftKey) {
      event.preventDefault();
      this.#send(this.#running && !event.altKey ? 'steer' : 'followup');
    } else if (event.key === 'Escape' && this.#running) {
      event.preventDefault();
      run('dsh.ui.cancel');
    }
  }

  #send(how: How): void {
    if (this.#input.value.trim() === '') return;
    this.#error.replaceChildren();
    this.#outbox.send(how, this.#input.value);
  }

  // -- files --------------------------------------------------------------------------------------------------------

  /** What is typed after an `@` at the cursor. */
  #mention(): string | undefined {
    const before = this.#input.value.slice(0, this.#input.selectionStart);
    return /(?:^|\s)@(\S*)$/.exec(before)?.[1];
  }

  showFiles(query: string, files: Chip[]): void {
    if (this.#mention() !== query) return; // the answer to an older question
    this.#found = files;
    this.#chosen = 0;
    this.#files.hidden = files.length === 0;
    this.#drawFiles();
  }

  #drawFiles(): void {
    const rows = this.#found.map((chip, index) => {
      const chosen = index === this.#chosen;
      const choose = (event: Event) => {
        event.preventDefault();
        this.#choose(index);
      };
      const properties = {
        role: 'option',
        id: `file-${index}`,
        'aria-selected': String(chosen),
        class: chosen ? 'chosen' : '',
        onmousedown: choose,
      };
      return el(
        'li',
        properties,
        icon('file'),
        el('span', {}, chip.label),
        el('span', { class: 'detail' }, chip.detail),
      );
    });
    this.#files.replaceChildren(...rows);
    this.#input.setAttribute('aria-activedescendant', `file-${this.#chosen}`);
    rows[this.#chosen]?.scrollIntoView({ block: 'nearest' });
  }

  #fileKey(event: KeyboardEvent): boolean {
    const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
    if (step !== 0) this.#chosen = (this.#chosen + step + this.#found.length) % this.#found.length;
    else if (event.key === 'Enter' || event.key === 'Tab') this.#choose(this.#chosen);
    else if (event.key === 'Escape') this.#hideFiles();
    else return false;
    event.preventDefault();
    if (step !== 0) this.#drawFiles();
    return true;
  }

  #choose(index: number): void {
    const chip = this.#found[index];
    if (chip === undefined) return;
    const at = this.#input.selectionStart;
    const before = this.#input.value.slice(0, at).replace(/@\S*$/, '');
    this.#input.value = before + this.#input.value.slice(at);
    this.#input.setSelectionRange(before.length, before.length);
    this.#hideFiles();
    keep({ draft: this.#input.value });
    post({ kind: 'addChip', chip });
  }

  #hideFiles(): void {
    this.#files.hidden = true;
    this.#input.removeAttribute('aria-activedescendant');
  }

  // -- drawing ------------------------------------------------------------------------------------------------------

  #drawChips(frame: Frame): void {
    const chips = frame.chips.map((chip, index) =>
      el(
        'span',
        { class: 'chip', title: chip.detail },
        icon('file'),
        el('span', {}, chip.label),
        iconButton('close', `Remove ${chip.label}`, () => post({ kind: 'removeChip', index })),
      ),
    );
    const { suggested } = frame;
    const known =
      suggested !== undefined &&
      frame.chips.some((chip) => JSON.stringify(chip.item) === JSON.stringify(suggested.item));
    const offer =
      suggested !== undefined && !known
        ? [
            el(
              'button',
              {
                type: 'button',
                class: 'chip suggested',
                title: `Add ${suggested.detail}`,
                onclick: () => post({ kind: 'addChip', chip: suggested }),
              },
              icon('add'),
              el('span', {}, suggested.label),
            ),
          ]
        : [];
    this.#chips.replaceChildren(...chips, ...offer);
  }

  /** What there is to do: a line, which unfolds. */
  #drawTodo({ todo }: SessionView): void {
    const open = this.#todo.querySelector('details')?.open ?? false;
    const done = todo.filter(({ status }) => status === 'done').length;
    const now = todo.find(({ status }) => status === 'in_progress')?.text;
    if (todo.length === 0 || done === todo.length) {
      this.#todo.replaceChildren();
      return;
    }
    const head = el(
      'summary',
      {},
      icon('checklist'),
      el('span', {}, `${done} of ${todo.length}${now ? `: ${now}` : ' done'}`),
    );
    const rows = todo.map(({ text, status }) => todoRow(text, status));
    this.#todo.replaceChildren(
      el('details', open ? { open: true } : {}, head, el('ul', { class: 'todos' }, ...rows)),
    );
  }

  /** What waits for a review, all proposals together, where it is always in sight. */
  #drawReview(view: SessionView): void {
    const reviews = (view.turns.at(-1)?.items ?? []).filter((item) => item.kind === 'review');
    const files = reviews
      .flatMap((item) => item.files)
      .filter((file) => file.hunks.some(({ outcome }) => outcome === undefined));
    const hunks = files.flatMap((file) => file.hunks).filter(({ outcome }) => outcome === undefined).length;
    const names = new Set(files.map(({ uri }) => uri)).size;
    const words = `${hunks === 1 ? '1 edit waits' : `${hunks} edits wait`}${names > 1 ? ` in ${names} files` : ''}`;
    if (this.#review.dataset.key === words) return;
    this.#review.dataset.key = words;
    if (hunks === 0) {
      this.#review.replaceChildren();
      return;
    }
    this.#review.replaceChildren(
      el(
        'div',
        { class: 'review-waits', role: 'group', 'aria-label': `${words} for your review` },
        icon('bell-dot'),
        el('span', { class: 'words' }, words),
        button('Review', () => run('dsh.ui.reviewEdits'), { class: 'primary' }),
        iconButton('check-all', 'Accept All', () => run('dsh.ui.acceptAll')),
        iconButton('close-all', 'Reject All', () => run('dsh.ui.rejectAll')),
      ),
    );
  }

  #drawBar(): void {
    const view = this.#view;
    if (view === undefined) return;
    const running = this.#running;
    const mode = view.mode ?? this.#status?.mode ?? 'ask';
    const model = view.model ?? this.#status?.model.name ?? '';
    const words = this.#input.value.trim() !== '';
    this.#input.placeholder = running ? 'Steer the running turn' : 'Ask DSH, @ adds a file';
    this.#hint.textContent = running
      ? 'Enter steers, Alt+Enter queues, Escape stops'
      : 'Enter sends, Shift+Enter begins a new line';
    drawParts(this.#bar, [
      [`mode ${mode}`, () => modeButton(mode)],
      [`model ${model}`, () => button(model || 'Model', () => run('dsh.ui.selectModel'), MODEL)],
      [`meter ${usageWords(view, this.#status)}`, () => meter(view, this.#status)],
      ['spring', () => el('span', { class: 'spring' })],
      ...this.#actions(running, words),
    ]);
  }

  #actions(running: boolean, words: boolean): Part[] {
    const send = (how: How) => () => this.#send(how);
    const make = (name: string, label: string, act: () => void, more = {}): Part => [
      JSON.stringify([name, more]),
      () => iconButton(name, label, act, more),
    ];
    if (!running) return [make('send', 'Send (Enter)', send('followup'), { class: 'icon go', disabled: !words })];
    const stop = make('debug-stop', 'Stop (Escape)', () => run('dsh.ui.cancel'), { class: 'icon stop' });
    if (!words) return [stop];
    return [
      make('list-ordered', 'Queue for the next turn (Alt+Enter)', send('followup')),
      make('compass', 'Steer (Enter)', send('steer'), { class: 'icon go' }),
      stop,
    ];
  }
}

const MODEL = { icon: 'chip', class: 'pick model' };
const MODE_ICONS: Record<Mode, string> = {
  ask: 'shield',
  'auto-edit': 'edit',
  plan: 'checklist',
  'read-only': 'lock',
};

function modeButton(mode: Mode): HTMLElement {
  const icon = MODE_ICONS[mode] ?? 'lock';
  return button(MODE_WORDS[mode] ?? mode, () => run('dsh.ui.setMode'), { icon, class: 'pick mode' });
}

function usageOf(view: SessionView, status: Status | undefined): Status['usage'] {
  return view.usage.contextTokens > 0 || status === undefined ? view.usage : status.usage;
}

function usageWords(view: SessionView, status: Status | undefined): string {
  const { contextTokens, contextWindow, input, output } = usageOf(view, status);
  return `${contextTokens}/${contextWindow ?? 0} ${input} ${output}`;
}

/** How full the context is. */
function meter(view: SessionView, status: Status | undefined): HTMLElement {
  const { contextTokens, contextWindow, input, output, cacheRead } = usageOf(view, status);
  if (contextTokens === 0) return el('span', {});
  const whole = `${input.toLocaleString()} tokens in, ${output.toLocaleString()} out, ${cacheRead.toLocaleString()} from the cache`;
  const share = contextWindow ? contextTokens / contextWindow : undefined;
  const label = share === undefined ? `${short(contextTokens)}` : `${share < 0.01 ? '<1' : Math.round(share * 100)}%`;
  const words = `Context: ${contextTokens.toLocaleString()}${contextWindow ? ` of ${contextWindow.toLocaleString()}` : ''} tokens. Session: ${whole}`;
  const full = share !== undefined && share > 0.8 ? ' full' : '';
  return el(
    'span',
    { class: `meter${full}`, title: words, role: 'img', 'aria-label': words },
    icon('pie-chart'),
    label,
  );
}

function short(tokens: number): string {
  return tokens < 1_000 ? String(tokens) : `${(tokens / 1_000).toFixed(tokens < 10_000 ? 1 : 0)}k`;
}
