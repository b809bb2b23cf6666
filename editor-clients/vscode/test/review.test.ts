/** Reviews: what a user sees of proposals of one and of several files, of the session that is shown and of another. */

import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { setTimeout as after } from 'node:timers/promises';
import { Corrections } from '../src/corrections.ts';
import { ProposalFiles } from '../src/proposal_files.ts';
import type { Outcome, ReviewFile, StreamValue } from '../src/protocol.ts';
import { Reviews } from '../src/review.ts';
import type { Change } from '../src/store.ts';
import { EMPTY, type SessionView } from '../src/view.ts';
import { EventEmitter, Range, user, window, workspace } from './fake_vscode.ts';

const FILES = { '/project/a.py': 'one\ntwo\nthree\n', '/project/b.py': 'x\ny\n' };
const SHOWN = 250; // ms after which what is kept is kept

type Edit = {
  id: string;
  path: string;
  line: number;
  old: string;
  new: string;
  accepted?: boolean;
  outcome?: Outcome;
};

const A: Edit = { id: 'a', path: '/project/a.py', line: 1, old: 'two\n', new: 'TWO\n' };
const B: Edit = { id: 'b', path: '/project/b.py', line: 0, old: 'x\n', new: 'X\n' };

class FakeStore {
  session: string | undefined;
  view: SessionView = EMPTY;
  readonly #changed = new EventEmitter<Change>();
  readonly onDidChange = this.#changed.event as never;

  show(session: string, view: SessionView): void {
    this.session = session;
    this.view = view;
    this.#changed.fire({ kind: 'view' });
  }
}

/** A server with sessions that have edits which wait; it applies what is accepted. */
class FakeServer {
  readonly sessions = new Map<string, Edit[]>();
  /** What the answers to questions wait for. */
  answers: Promise<void> = Promise.resolve();
  /** What accepted edits wait for before they land. */
  landing: Promise<void> = Promise.resolve();
  readonly #values = new EventEmitter<StreamValue>();
  readonly onValue = this.#values.event as never;
  readonly ran: { command: string; argument: Record<string, unknown> }[] = [];
  readonly store = new FakeStore();

  async run(command: string, argument: Record<string, unknown>): Promise<unknown> {
    const session = String(argument.session);
    const edits = this.sessions.get(session) ?? [];
    if (command === 'dsh.review.list') {
      const files = edits.filter((one) => !one.outcome && !one.accepted).map(reviewFile);
      await this.answers;
      return { files };
    }
    this.ran.push({ command, argument });
    const outcome = command === 'dsh.review.accept' ? 'landed' : 'rejected';
    const { hunks, uri } = argument as { hunks: string[] | 'all'; uri?: string };
    const isMeant = (edit: Edit) =>
      hunks === 'all' ? (uri ?? uriOf(edit)) === uriOf(edit) : hunks.includes(edit.id);
    const decided = edits.filter((edit) => isMeant(edit) && !edit.outcome);
    for (const edit of decided) edit.accepted = true;
    const told = (outcome === 'landed' ? this.landing : Promise.resolve()).then(() => {
      for (const edit of decided) edit.outcome = outcome;
      const hunks = decided.map(({ id }) => ({ id, outcome }));
      this.#values.fire({ dsh: 1, session, time: 0, type: 'review/decided', data: { proposal: 'p', hunks } });
      if (session === this.store.session) this.show(session);
    });
    if (outcome === 'rejected') await told;
    return { left: 0 };
  }

  show(session: string): void {
    const files = (this.sessions.get(session) ?? []).map((edit) => ({
      uri: uriOf(edit),
      kind: 'edit' as const,
      hunks: [
        {
          id: edit.id,
          line: edit.line + 1,
          oldText: edit.old,
          newText: edit.new,
          landed: edit.outcome === 'landed',
          ...(edit.outcome ? { outcome: edit.outcome } : {}),
        },
      ],
    }));
    const review = { kind: 'review' as const, proposal: 'p', files };
    this.store.show(session, { ...EMPTY, turns: [{ turn: 1, step: 1, items: [review] }] });
  }
}

class FakeMemento {
  readonly #values = new Map<string, unknown>();
  get<T>(key: string): T | undefined {
    return this.#values.get(key) as T | undefined;
  }
  async update(key: string, value: unknown): Promise<void> {
    this.#values.set(key, value);
  }
  keys(): readonly string[] {
    return [...this.#values.keys()];
  }
}

function uriOf({ path }: Edit): string {
  return `file://${path}`;
}

function reviewFile(edit: Edit): ReviewFile {
  const range = { start: { line: edit.line, character: 0 }, end: { line: edit.line + 1, character: 0 } };
  const hunk = { id: edit.id, range, oldText: edit.old, newText: edit.new };
  return { uri: uriOf(edit), kind: 'edit', hunks: [hunk] } as unknown as ReviewFile;
}

let server: FakeServer;
let reviews: Reviews;
let memento: FakeMemento;
let elsewhere: boolean;

function start(): void {
  const [files] = ProposalFiles.register();
  reviews = new Reviews({
    client: server as never,
    store: server.store,
    files,
    corrections: new Corrections(memento),
    log: { warn: (text: string) => assert.fail(text) } as never,
    isElsewhere: () => elsewhere,
  });
}

beforeEach(() => {
  user.begin(FILES);
  server = new FakeServer();
  memento = new FakeMemento();
  elsewhere = false;
  server.sessions.set('first', [{ ...A }, { ...B }]);
  server.show('first');
  start();
});

/** What a user types into the proposal for a file. */
function correct(path: string, line: number, text: string): void {
  const document = user.proposal(path);
  assert.ok(document, `a proposal for ${path} is shown`);
  const { end } = document.lineAt(line).range;
  document.replace(new Range(end, end), text);
}

const settled = () => after(80);

afterEach(settled); // what closes a view may still run

test('a file that is decided leaves the view of several, and nothing shows it as proposed any more', async () => {
  server.sessions.get('first')?.push({ ...A, id: 'c', path: '/project/c.py', line: 0 });
  user.files.set('/project/c.py', 'two\n');
  server.show('first');
  await reviews.show();
  assert.deepEqual(user.tabs(), [
    { label: 'DSH review (3 files)', files: ['/project/a.py', '/project/b.py', '/project/c.py'] },
  ]);
  await reviews.reject(['a']);
  await settled();
  assert.deepEqual(user.tabs(), [{ label: 'DSH review (2 files)', files: ['/project/b.py', '/project/c.py'] }]);
  await reviews.reject(['b']);
  await settled();
  assert.deepEqual(user.tabs(), [{ label: 'DSH review: c.py', files: ['/project/c.py'] }]);
  await reviews.reject(['c']);
  await settled();
  assert.deepEqual(user.tabs(), []);
});

test('who presses the key for the review twice gets one view of it', async () => {
  user.pause = () => after(10);
  await Promise.all([reviews.show(), reviews.show()]);
  assert.equal(user.tabs().length, 1);
});

test('while the user types elsewhere no view takes the focus, but a decided file reads as it is', async () => {
  await reviews.show();
  elsewhere = true;
  await reviews.reject(['a']);
  await settled();
  assert.deepEqual(user.tabs(), [{ label: 'DSH review (2 files)', files: ['/project/a.py', '/project/b.py'] }]);
  assert.equal(user.proposal('/project/a.py')?.getText(), FILES['/project/a.py']);
});

test('proposals and what is written into them wait while another session is shown', async () => {
  server.sessions.set('second', [{ ...A, id: 'z', new: 'other\n' }]);
  await reviews.show({ uri: uriOf(A) });
  correct('/project/a.py', 1, ' corrected');
  server.show('second');
  await settled();
  assert.equal(user.proposal('/project/a.py')?.getText(), 'one\nTWO corrected\nthree\n');
  await reviews.show();
  assert.equal(user.proposal('/project/a.py', 'second')?.getText(), 'one\nother\nthree\n');
  server.show('first');
  await reviews.accept(['a']);
  assert.deepEqual(server.ran.at(-1)?.argument, { session: 'first', hunks: ['a'], edited: { a: 'TWO corrected\n' } });
});

test('a decision in the view of a session that is not shown is about that session', async () => {
  server.sessions.set('second', []);
  await reviews.show({ uri: uriOf(A) });
  server.show('second');
  await reviews.reject(['a']);
  assert.equal(server.ran.at(-1)?.argument.session, 'first');
  await settled();
  assert.deepEqual(user.tabs(), []);
});

test('all edits are those that the user looks at, and from elsewhere those of the session that is shown', async () => {
  server.sessions.set('second', [{ ...A, id: 'z' }]);
  await reviews.show();
  server.show('second');
  elsewhere = true;
  await reviews.reject('all');
  elsewhere = false;
  await reviews.reject('all');
  server.sessions.set('third', [{ ...A, id: 'y' }]);
  server.show('third');
  await reviews.show();
  user.select(user.proposal('/project/a.py', 'third'));
  server.show('second');
  await reviews.reject('all');
  assert.deepEqual(
    server.ran.map(({ argument }) => argument.session),
    ['second', 'first', 'third'],
  );
});

test('a correction that is accepted in the view of a session that is not shown waits there until it lands', async () => {
  server.sessions.set('second', []);
  await reviews.show({ uri: uriOf(A) });
  correct('/project/a.py', 1, ' corrected');
  server.show('second');
  let land = () => {};
  server.landing = new Promise((resolve) => {
    land = resolve;
  });
  await reviews.accept(['a']);
  await settled();
  assert.equal(user.proposal('/project/a.py')?.getText(), 'one\nTWO corrected\nthree\n');
  land();
  await settled();
  assert.deepEqual(user.tabs(), []);
  assert.deepEqual(user.told, []);
});

test('accepting a file leaves the other files alone', async () => {
  await reviews.show();
  await reviews.accept('all', reviews.fileOf(user.proposal('/project/b.py')?.uri as never));
  assert.deepEqual(server.ran.at(-1)?.argument, { session: 'first', uri: uriOf(B), hunks: 'all', edited: {} });
  assert.deepEqual(
    server.sessions.get('first')?.map(({ outcome }) => outcome),
    [undefined, 'landed'],
  );
});

test('what was written into a proposal that is cancelled is given back', async () => {
  user.clicks.add('Open');
  await reviews.show({ uri: uriOf(A) });
  correct('/project/a.py', 1, ' corrected');
  for (const edit of server.sessions.get('first') ?? []) edit.outcome = 'cancelled';
  server.show('first');
  await settled();
  assert.match(user.told[0] ?? '', /review of a\.py has ended/);
  const given = workspace.textDocuments.find(({ uri }) => uri.scheme === 'untitled');
  assert.equal(given?.getText(), 'one\nTWO corrected\nthree\n');
});

test('a correction that is accepted but does not land is given back', async () => {
  user.clicks.add('Open');
  await reviews.show({ uri: uriOf(A) });
  correct('/project/a.py', 1, ' corrected');
  for (const edit of server.sessions.get('first') ?? []) edit.outcome = 'conflict';
  await reviews.accept(['a']);
  await settled();
  const given = workspace.textDocuments.find(({ uri }) => uri.scheme === 'untitled');
  assert.equal(given?.getText(), 'one\nTWO corrected\nthree\n');
});

test('a proposal without a word of the user ends silently, and so does one that they reject', async () => {
  await reviews.show();
  correct('/project/a.py', 1, ' corrected');
  await reviews.reject(['a']);
  for (const edit of server.sessions.get('first') ?? []) edit.outcome ??= 'cancelled';
  server.show('first');
  await settled();
  assert.deepEqual(user.told, []);
});

test('what was written into a proposal outlives the window', async () => {
  await reviews.show({ uri: uriOf(A) });
  correct('/project/a.py', 1, ' corrected');
  await after(SHOWN);
  user.begin(FILES);
  user.clicks.add('Open');
  await new Corrections(memento).recover();
  assert.match(user.told[0] ?? '', /a\.py/);
  assert.equal(workspace.textDocuments.at(-1)?.getText(), 'one\nTWO corrected\nthree\n');
  user.told.length = 0;
  await new Corrections(memento).recover();
  assert.deepEqual(user.told, []);
});

test('a view that is closed without saving keeps what was written, and it is accepted with it', async () => {
  await reviews.show({ uri: uriOf(A) });
  correct('/project/a.py', 1, ' corrected');
  await window.tabGroups.close(window.tabGroups.all.flatMap(({ tabs }) => tabs));
  assert.equal(user.proposal('/project/a.py'), undefined);
  await reviews.show({ uri: uriOf(A) });
  assert.equal(user.proposal('/project/a.py')?.getText(), 'one\nTWO corrected\nthree\n');
  await reviews.accept(['a']);
  assert.deepEqual(server.ran.at(-1)?.argument.edited, { a: 'TWO corrected\n' });
});

test('the proposals of a session that is deleted are closed, those of others stay, and words are given back', async () => {
  user.clicks.add('Open');
  await reviews.show();
  correct('/project/a.py', 1, ' corrected');
  await reviews.forget('second');
  assert.equal(user.tabs().length, 1);
  await reviews.forget('first');
  assert.deepEqual(
    user
      .tabs()
      .flatMap(({ files }) => files)
      .filter((file) => file.startsWith('/project')),
    [],
  );
  assert.match(user.told[0] ?? '', /review of a\.py has ended/);
  const given = workspace.textDocuments.find(({ uri }) => uri.scheme === 'untitled');
  assert.equal(given?.getText(), 'one\nTWO corrected\nthree\n');
});

test('a session that is deleted is told of twice, and its proposals are closed once, without a question', async () => {
  user.clicks.add('Open');
  await reviews.show({ uri: uriOf(A) });
  correct('/project/a.py', 1, ' corrected');
  user.pause = () => after(10);
  for (const edit of server.sessions.get('first') ?? []) edit.outcome = 'cancelled';
  server.show('first'); // its turn is cancelled, then it is gone
  await after(5);
  await reviews.forget('first');
  await settled();
  assert.deepEqual(user.asked, []);
  assert.equal(user.proposal('/project/a.py'), undefined);
  assert.equal(user.told.length, 1);
  const given = workspace.textDocuments.filter(({ uri }) => uri.scheme === 'untitled');
  assert.deepEqual(
    given.map((document) => document.getText()),
    ['one\nTWO corrected\nthree\n'],
  );
});

test('what is decided while the server is asked what waits is not shown as waiting, and nothing is said', async () => {
  let answer = () => {};
  server.answers = new Promise((resolve) => {
    answer = resolve;
  });
  server.sessions.set('first', [{ ...A }]);
  const shown = reviews.show({ preserveFocus: true });
  await after(5);
  for (const edit of server.sessions.get('first') ?? []) edit.outcome = 'cancelled';
  server.show('first');
  answer();
  await shown;
  await settled();
  assert.deepEqual(user.tabs(), []);
  assert.deepEqual(user.told, []);
});

test('what comes back while an older message stands there is not thrown away with that one', async () => {
  const corrections = new Corrections(memento);
  const choices: ((choice: string | undefined) => void)[] = [];
  user.answer = () => new Promise((resolve) => choices.push(resolve));
  const [a, b] = ['a', 'b'].map((name) => ({ uri: `file:///project/${name}.py`, text: `${name}\n` }));
  const first = corrections.giveBack([a as never]);
  await after(1);
  const second = corrections.giveBack([b as never]);
  await after(1);
  choices[0]?.('Discard');
  await first;
  choices[1]?.('Open');
  await second;
  const given = workspace.textDocuments.filter(({ uri }) => uri.scheme === 'untitled');
  assert.deepEqual(
    given.map((document) => document.getText()),
    ['b\n'],
  );
});
