/**
 * Review: the edits that wait, in the editor's own diff: the real file on the left, the writable proposal on the right.
 *
 * Rules: decisions are commands of the server, and the server applies; a view is opened by the user, or when the chat
 * has the focus, so that nobody's typing is interrupted; what the user writes into a proposal is never dropped: within
 * a hunk it corrects that hunk, elsewhere it is an edit of theirs, offered as such. Proposals belong to a session and
 * wait while another one is shown; what a user wrote into one that ends otherwise than by their own word is given back.
 */

import * as vscode from 'vscode';
import type { Client } from './client.ts';
import type { Corrections, Text } from './corrections.ts';
import { messageOf } from './errors.ts';
import { FileUnderReview, isCurrent, isDone, titleOf, whatOf } from './file_under_review.ts';
import { type Change, linesOf } from './proposal.ts';
import { EMPTY, PROPOSAL, type ProposalFiles } from './proposal_files.ts';
import { type Outcome, ofSession, type ReviewFile, type ReviewHunk, type StreamValue } from './protocol.ts';
import { lensesOf } from './review_lenses.ts';
import { closeTabs, savedTabs, severalAreShown, TITLE } from './review_tabs.ts';
import type { Events } from './session.ts';
import type { Store } from './store.ts';
import { replacement, smallestEdit } from './text_edits.ts';
import { outcomeOf, outcomesOf } from './view.ts';

const TRIES = 10;
const TRY_AGAIN_MS = 50;
const KEEP_MS = 200; // after the last key
const SOON_MS = 150; // calls of one step propose at almost the same time

type Parts = {
  client: Pick<Client, 'run' | 'onValue'>;
  store: Pick<Store, 'session' | 'view' | 'onDidChange'>;
  files: ProposalFiles;
  corrections: Corrections;
  log: vscode.LogOutputChannel;
  /** Whether the user types elsewhere than in an editor. */
  isElsewhere: () => boolean;
};

/** A file that a decision is about; with no `uri` all files of a session. */
export type Of = { uri?: string; session: string | undefined };

export class Reviews implements vscode.CodeLensProvider, vscode.Disposable {
  readonly #client: Parts['client'];
  readonly #store: Parts['store'];
  readonly #files: ProposalFiles;
  readonly #corrections: Corrections;
  readonly #log: vscode.LogOutputChannel;
  readonly #isElsewhere: () => boolean;
  readonly #open = new Map<string, FileUnderReview>();
  readonly #isGone = (uri: vscode.Uri) => !this.#open.has(uri.toString());
  readonly #lenses = new vscode.EventEmitter<void>();
  readonly onDidChangeCodeLenses = this.#lenses.event;
  readonly #disposables: vscode.Disposable[];
  #writing: Promise<void> = Promise.resolve();
  #showing: Promise<void> = Promise.resolve();
  #soon: NodeJS.Timeout | undefined;
  #keeping: NodeJS.Timeout | undefined;
  /** What the tab of several files shows. */
  #together: vscode.Uri[] = [];
  readonly #deleted = new Set<string | undefined>(); // sessions
  readonly #rejected = new Set<string>(); // hunks, by the user and here

  constructor(parts: Parts) {
    ({ client: this.#client, store: this.#store, files: this.#files } = parts);
    ({ corrections: this.#corrections, log: this.#log, isElsewhere: this.#isElsewhere } = parts);
    this.#disposables = [
      vscode.languages.registerCodeLensProvider({ scheme: PROPOSAL }, this),
      vscode.workspace.onDidChangeTextDocument((event) => this.#followed(event)),
      vscode.window.onDidChangeActiveTextEditor((editor) => {
        // In a tab of several files the editor itself does not say whose they are.
        void vscode.commands.executeCommand('setContext', 'dsh.inProposal', editor?.document.uri.scheme === PROPOSAL);
      }),
      this.#store.onDidChange(({ kind }) => kind !== 'status' && this.#follow()),
      this.#client.onValue((value) => this.#heard(value)),
    ];
  }

  // -- what waits ---------------------------------------------------------------------------------------------------

  /** Whether a file's review is open. */
  shows(uri: string): boolean {
    return [...this.#open.values()].some(({ left }) => left.toString() === uri);
  }

  /** Show what waits: one file in a diff, several in the multi-file diff; `uri` shows one file alone. */
  show(options: { uri?: string; preserveFocus?: boolean } = {}): Promise<void> {
    this.#showing = this.#showing.catch(() => {}).then(() => this.#show(options)); // one after the other: a key is pressed twice
    return this.#showing;
  }

  async #show(options: { uri?: string; preserveFocus?: boolean }): Promise<void> {
    const nothing = (await this.#load()) ? 'no edits wait for a review' : 'what waits does not fit the files here';
    const files = this.#filesOf(this.#store.session).filter(({ uri }) => (options.uri ?? uri) === uri);
    const asked = !options.preserveFocus; // else they come by themselves, and may have been decided meanwhile
    if (files.length === 0 && asked) void vscode.window.showInformationMessage(`DSH: ${nothing}.`);
    if (!asked && (files.length > 1 || !this.#isElsewhere())) return; // it would take the focus
    await this.#present(files, !asked, files.length > 1);
    this.#lenses.fire();
  }

  #filesOf(session: string | undefined): FileUnderReview[] {
    return [...this.#open.values()].filter((file) => file.session === session);
  }

  /** Open the view of these files, in the place of the tabs that show some of them, or of the tab of several files. */
  async #present(files: FileUnderReview[], preserveFocus: boolean, instead: boolean): Promise<void> {
    const [first, ...more] = files;
    if (first === undefined) return;
    const rights = new Set([...files.map(({ right }) => right), ...this.#together].map(String));
    const isShown = (uri: vscode.Uri) => rights.has(String(uri));
    const before = instead ? await savedTabs((uri) => more.length > 0 && isShown(uri), [], isShown) : [];
    if (more.length === 0) {
      const how = { preview: false, preserveFocus };
      await vscode.commands.executeCommand('vscode.diff', first.left, first.right, titleOf(first), how);
    } else {
      const triples = files.map(({ left, right }) => [left, left.scheme === EMPTY ? undefined : left, right]);
      await vscode.commands.executeCommand('vscode.changes', TITLE, triples);
    }
    if (instead) this.#together = more.length > 0 ? files.map(({ right }) => right) : [];
    if (before.length > 0) await vscode.window.tabGroups.close(before, true);
  }

  /** Show what waits without taking the focus, once for all that comes together. */
  showSoon(): void {
    clearTimeout(this.#soon);
    this.#soon = setTimeout(() => {
      void this.show({ preserveFocus: true }).catch((error: unknown) => this.#log.warn(messageOf(error)));
    }, SOON_MS);
  }

  /** Bring what the server says is pending into the proposals that are shown; false if not all of it fits. */
  async #load(): Promise<boolean> {
    for (let tries = 0; tries < TRIES; tries++) {
      const { session } = this.#store;
      const { files } = await this.#client.run('dsh.review.list', ofSession(session));
      if (await this.#take(files, session)) return true;
      await new Promise((resolve) => setTimeout(resolve, TRY_AGAIN_MS)); // the user types: its places are not ours yet
    }
    this.#log.warn('some of the edits that wait do not fit the files as they are here');
    return false;
  }

  async #take(files: ReviewFile[], session: string | undefined): Promise<boolean> {
    const known = new Set(this.#filesOf(session).flatMap((file) => file.proposal.ids));
    let fits = true;
    for (const file of files) {
      for (const hunk of file.hunks.filter(({ id }) => !known.has(id))) {
        fits = (await this.#add(file, hunk, session)) && fits;
      }
    }
    return fits;
  }

  async #add(file: ReviewFile, hunk: ReviewHunk, session: string | undefined): Promise<boolean> {
    for (let layer = 1; layer <= TRIES; layer++) {
      const under = await this.#fileAt(file, `${session ?? ''}.${layer}`, session);
      const isOver = this.#deleted.has(session) || outcomeOf(this.#store.view, hunk.id) !== undefined;
      if (!isOver && under.add(hunk)) {
        await this.#write(under);
        return true;
      }
      if (under.proposal.ids.length === 0) this.#open.delete(under.right.toString());
      if (isOver || under.proposal.ids.length === 0) return isOver;
    }
    return false;
  }

  /** Proposals for one file share a document; one that overlaps what is there gets a layer of its own. */
  async #fileAt(file: ReviewFile, query: string, session: string | undefined): Promise<FileUnderReview> {
    const { uri, kind } = file;
    const target = vscode.Uri.parse(uri);
    const right = target.with({ scheme: PROPOSAL, authority: '', query });
    const known = this.#open.get(right.toString());
    if (known !== undefined) return known;
    const left = kind === 'create' ? target.with({ scheme: EMPTY, authority: '', query }) : target;
    const document = await vscode.workspace.openTextDocument(left);
    const under = new FileUnderReview({
      uri,
      what: whatOf(file),
      session,
      left,
      right,
      text: document.getText(),
    });
    this.#open.set(right.toString(), under);
    return under;
  }

  // -- following the documents --------------------------------------------------------------------------------------

  #followed({ document, contentChanges }: vscode.TextDocumentChangeEvent): void {
    if (this.#open.size === 0 || contentChanges.length === 0) return;
    const uri = document.uri.toString();
    const changes = contentChanges.map(({ range, text }) => ({ start: range.start, end: range.end, text }));
    for (const under of this.#open.values()) {
      if (under.right.toString() === uri) {
        const lines = linesOf(document.getText());
        if (document.getText() === under.writes) under.proposal.written(lines);
        else under.proposal.followRight(lines, changes);
        this.#files.keep(under.right, document.getText());
        this.#keepSoon();
      } else if (under.left.toString() === uri) {
        under.proposal.followLeft(linesOf(document.getText()), changes);
        void this.#write(under);
      } else continue;
      this.#lenses.fire();
    }
  }

  /** Take the server's decisions in about the session that is shown. */
  #follow(): void {
    const files = this.#filesOf(this.#store.session);
    if (files.length === 0) return;
    const ids = files.flatMap(({ proposal }) => proposal.ids);
    this.#settle(files, outcomesOf(this.#store.view, ids));
  }

  /** The same about one that is not shown: its proposals may be. */
  #heard({ session, type, data }: StreamValue): void {
    if (type !== 'review/decided' || session === this.#store.session) return;
    const { hunks } = data as Events['review/decided'];
    this.#settle(this.#filesOf(session), new Map(hunks.map(({ id, outcome }) => [id, outcome])));
  }

  #settle(files: FileUnderReview[], outcomes: Map<string, Outcome | undefined>): void {
    const lost: Text[] = [];
    for (const under of files) {
      const decided = under.proposal.ids.filter((id) => outcomes.has(id));
      if (decided.some((id) => under.losesWords(id, outcomes.get(id), this.#rejected.has(id)))) lost.push(under.text);
      for (const id of decided) under.proposal.decide(id);
      if (decided.length > 0) void this.#write(under);
    }
    if (lost.length > 0) void this.#corrections.giveBack(lost);
    this.#lenses.fire();
    this.#keepSoon();
    void this.#closeDecided();
  }

  /** A session was deleted: its proposals are closed; what was written into them is given back. */
  async forget(session: string): Promise<void> {
    this.#deleted.add(session);
    const gone = this.#filesOf(session);
    for (const { right } of gone) this.#open.delete(right.toString());
    this.#keepSoon();
    const written = gone.filter(({ isWritten }) => isWritten);
    if (written.length > 0) void this.#corrections.giveBack(written.map(({ text }) => text));
    await this.#inTurn('closing a review', () => closeTabs(this.#isGone, this.#together));
  }

  #keepSoon(): void {
    clearTimeout(this.#keeping);
    this.#keeping = setTimeout(() => {
      this.#corrections.keep([...this.#open.values()].filter(({ isWritten }) => isWritten).map(({ text }) => text));
    }, KEEP_MS);
  }

  /** Write and close one after the other: what is written into a tab that closes would bring it back, unsaved. */
  #inTurn(what: string, work: () => Promise<void>): Promise<void> {
    this.#writing = this.#writing
      .then(work)
      .catch((error: unknown) => this.#log.warn(`${what}: ${messageOf(error)}`));
    return this.#writing;
  }

  /** Bring a proposal's document to what it should read, with the smallest edit, so that the cursor stays. */
  #write(under: FileUnderReview): Promise<void> {
    return this.#inTurn(`proposal ${under.right.path}`, () => this.#writeNow(under));
  }

  async #writeNow(under: FileUnderReview, tries = TRIES): Promise<void> {
    if (this.#open.get(under.right.toString()) !== under) return; // it is over, and its tab is closed
    const document = vscode.workspace.textDocuments.find(({ uri }) => uri.toString() === under.right.toString());
    const eol = document?.eol === vscode.EndOfLine.CRLF ? '\r\n' : '\n';
    const wanted = under.proposal.right.join(eol);
    if (document === undefined) {
      this.#files.put(under.right, wanted);
      under.proposal.written(linesOf(wanted));
      return;
    }
    if (document.getText() === wanted) return;
    const edit = new vscode.WorkspaceEdit();
    edit.replace(under.right, ...smallestEdit(document, wanted));
    under.writes = wanted;
    const applied = await vscode.workspace.applyEdit(edit);
    under.writes = undefined; // if its user types the same later, that is an edit of theirs
    if (!applied && tries > 1) await this.#writeNow(under, tries - 1); // the user has typed meanwhile
  }

  /** Close the views of files that have nothing left to decide. */
  #closeDecided(): Promise<void> {
    return this.#inTurn('closing a review', () => this.#closeNow());
  }

  async #closeNow(): Promise<void> {
    const done = [...this.#open].filter(([, under]) => isDone(under));
    if (done.length === 0) return;
    for (const [key] of done) this.#open.delete(key);
    await closeTabs(this.#isGone, this.#together);
    const left = this.#together.flatMap((uri) => this.#open.get(uri.toString()) ?? []);
    if (left.length === this.#together.length || left.length === 0) return;
    if (!severalAreShown() || this.#isElsewhere()) return; // it would take the focus; what is decided reads as the file does
    await this.#present(left, false, true);
  }

  // -- deciding -----------------------------------------------------------------------------------------------------

  /** Accept hunks, with the corrections that the user has written into their proposals. */
  async accept(hunks: string[] | 'all', of?: Of): Promise<void> {
    const edited: Record<string, string> = {};
    for (const under of this.#meant(hunks, of)) {
      const document = await vscode.workspace.openTextDocument(under.left);
      const eol = document.eol === vscode.EndOfLine.CRLF ? '\r\n' : '\n';
      for (const id of under.proposal.ids) {
        const text = hunks === 'all' || hunks.includes(id) ? under.correction(id, eol) : undefined;
        if (text !== undefined) edited[id] = text;
      }
      if (hunks === 'all') for (const change of under.own.reverse()) await this.land(under.right.toString(), change);
    }
    await this.#client.run('dsh.review.accept', { ...this.#target(hunks, of), hunks, edited });
  }

  async reject(hunks: string[] | 'all', of?: Of, comment?: string): Promise<void> {
    const words = comment === undefined ? {} : { comment };
    const ids = hunks === 'all' ? this.#meant(hunks, of).flatMap(({ proposal }) => proposal.ids) : hunks;
    for (const id of ids) this.#rejected.add(id); // the answer may come after its event
    try {
      await this.#client.run('dsh.review.reject', { ...this.#target(hunks, of), hunks, ...words });
    } catch (error) {
      for (const id of ids) this.#rejected.delete(id);
      throw error;
    }
  }

  /** The file whose proposal a view shows. */
  fileOf(right: vscode.Uri | undefined): Of | undefined {
    const under = this.#open.get((right ?? vscode.window.activeTextEditor?.document.uri)?.toString() ?? '');
    return under && { uri: under.uri, session: under.session };
  }

  /** A file of the review that its user looks at. */
  get #inSight(): FileUnderReview | undefined {
    const active = vscode.window.activeTextEditor?.document.uri;
    const seen = this.#isElsewhere() ? [] : [active, ...(severalAreShown() ? this.#together : [])];
    return seen.flatMap((uri) => this.#open.get(String(uri)) ?? [])[0];
  }

  /** Those that a decision is about: a file's, else those of the session that has the hunks, or whose edits are seen. */
  #meant(hunks: string[] | 'all', of?: Of): FileUnderReview[] {
    const owner =
      hunks === 'all'
        ? this.#inSight
        : [...this.#open.values()].find(({ proposal }) => proposal.ids.includes(hunks[0] ?? ''));
    const files = this.#filesOf((of ?? owner ?? this.#store).session);
    return files.filter(({ uri }) => of?.uri === undefined || of.uri === uri);
  }

  #target(hunks: string[] | 'all', of?: Of): { session?: string; uri?: string } {
    const session = of?.session ?? this.#meant(hunks, of)[0]?.session ?? this.#store.session;
    return { ...ofSession(session), ...(of?.uri === undefined ? {} : { uri: of.uri }) };
  }

  /** The hunk at the cursor of the active proposal, or the next one below. */
  hunkAtCursor(): string | undefined {
    const editor = vscode.window.activeTextEditor;
    return editor && this.#open.get(editor.document.uri.toString())?.hunkAt(editor.selection.active.line);
  }

  /** Bring an edit that the user wrote into a proposal into the file: it is theirs, so it is not reviewed. */
  async land(right: string, change: Change): Promise<void> {
    const under = this.#open.get(right);
    if (under === undefined || !isCurrent(under, change)) return;
    const document = await vscode.workspace.openTextDocument(under.left);
    const { start, end, lines } = under.proposal.landing(change);
    const edit = new vscode.WorkspaceEdit();
    edit.replace(under.left, ...replacement(document, start, end, lines));
    await vscode.workspace.applyEdit(edit);
    await this.#closeDecided();
  }

  /** Take an edit of the user's own out of a proposal again. */
  async undo(right: string, change: Change): Promise<void> {
    const under = this.#open.get(right);
    if (under === undefined || !isCurrent(under, change)) return;
    under.proposal.undo(change);
    await this.#write(under);
    await this.#closeDecided();
  }

  // -- lenses -------------------------------------------------------------------------------------------------------

  provideCodeLenses(document: vscode.TextDocument): vscode.CodeLens[] {
    const under = this.#open.get(document.uri.toString());
    return under === undefined ? [] : lensesOf(under, document);
  }

  dispose(): void {
    for (const disposable of this.#disposables) disposable.dispose();
  }
}
