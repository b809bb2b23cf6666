/**
 * Review: the edits that wait, in the editor's own diff: the real file on the left, the writable proposal on the right.
 *
 * Rules: decisions are commands of the server, and the server applies; a view is opened by the user, or when the chat
 * has the focus, so that nobody's typing is interrupted; what the user writes into a proposal is never dropped: within
 * a hunk it corrects that hunk, elsewhere it is an edit of theirs, offered as such.
 */

import * as vscode from 'vscode';
import { type Client, messageOf } from './client.ts';
import { FileUnderReview, isCurrent, isDone, titleOf, whatOf } from './file_under_review.ts';
import { type Change, linesOf } from './proposal.ts';
import { EMPTY, PROPOSAL, type ProposalFiles } from './proposal_files.ts';
import type { ReviewFile, ReviewHunk } from './protocol.ts';
import { closeTabs, proposalTabs, TITLE } from './review_tabs.ts';
import type { Store } from './store.ts';

const TRIES = 10;
const TRY_AGAIN_MS = 50;
const SOON_MS = 150; // calls of one step propose at almost the same time

export class Reviews implements vscode.CodeLensProvider, vscode.Disposable {
  readonly #client: Client;
  readonly #store: Store;
  readonly #files: ProposalFiles;
  readonly #log: vscode.LogOutputChannel;
  readonly #open = new Map<string, FileUnderReview>();
  readonly #lenses = new vscode.EventEmitter<void>();
  readonly onDidChangeCodeLenses = this.#lenses.event;
  readonly #disposables: vscode.Disposable[];
  #writing: Promise<void> = Promise.resolve();
  #loading: Promise<void> = Promise.resolve();
  #soon: NodeJS.Timeout | undefined;

  constructor(parts: { client: Client; store: Store; files: ProposalFiles; log: vscode.LogOutputChannel }) {
    this.#client = parts.client;
    this.#store = parts.store;
    this.#files = parts.files;
    this.#log = parts.log;
    this.#disposables = [
      vscode.languages.registerCodeLensProvider({ scheme: PROPOSAL }, this),
      vscode.workspace.onDidChangeTextDocument((event) => this.#followed(event)),
      this.#store.onDidChange(({ kind }) => kind !== 'status' && this.#follow()),
    ];
  }

  // -- what waits ---------------------------------------------------------------------------------------------------

  /** Whether a file's review is open. */
  shows(uri: string): boolean {
    return [...this.#open.values()].some(({ left }) => left.toString() === uri);
  }

  /** Show what waits: one file in a diff, several in the multi-file diff; `uri` shows one file alone. */
  async show(options: { uri?: string; preserveFocus?: boolean } = {}): Promise<void> {
    this.#loading = this.#loading.catch(() => {}).then(() => this.#load()); // one after the other
    await this.#loading;
    const files = [...this.#open.values()].filter((file) => options.uri === undefined || file.uri === options.uri);
    const [first] = files;
    if (first === undefined) return void vscode.window.showInformationMessage('DSH: no edits wait for a review.');
    const shown = { preview: false, preserveFocus: options.preserveFocus ?? false };
    if (files.length > 1 && options.preserveFocus) return; // the editor would take the focus for several files
    if (files.length === 1) {
      await vscode.commands.executeCommand('vscode.diff', first.left, first.right, titleOf(first), shown);
    } else {
      const triples = files.map((file) => [
        file.left,
        file.left.scheme === EMPTY ? undefined : file.left,
        file.right,
      ]);
      const before = proposalTabs(() => true);
      await vscode.commands.executeCommand('vscode.changes', `${TITLE}: ${files.length} files`, triples);
      if (before.length > 0) await vscode.window.tabGroups.close(before, true);
    }
    this.#lenses.fire();
  }

  /** Show what waits without taking the focus, once for all that comes together. */
  showSoon(): void {
    clearTimeout(this.#soon);
    this.#soon = setTimeout(() => {
      void this.show({ preserveFocus: true }).catch((error: unknown) => this.#log.warn(messageOf(error)));
    }, SOON_MS);
  }

  /** Bring what the server says is pending into the proposals that are shown. */
  async #load(): Promise<void> {
    for (let tries = 0; tries < TRIES; tries++) {
      const { files } = await this.#client.run('dsh.review.list', this.#ofSession());
      if (await this.#take(files)) return;
      await new Promise((resolve) => setTimeout(resolve, TRY_AGAIN_MS)); // the user types: its places are not ours yet
    }
    this.#log.warn('some of the edits that wait do not fit the files as they are here');
  }

  #ofSession(): { session?: string } {
    return this.#store.session === undefined ? {} : { session: this.#store.session };
  }

  async #take(files: ReviewFile[]): Promise<boolean> {
    const known = new Set([...this.#open.values()].flatMap((file) => file.proposal.ids));
    let fits = true;
    for (const file of files) {
      for (const hunk of file.hunks.filter(({ id }) => !known.has(id))) {
        fits = (await this.#add(file, hunk)) && fits;
      }
    }
    return fits;
  }

  async #add(file: ReviewFile, hunk: ReviewHunk): Promise<boolean> {
    for (let layer = 0; layer < TRIES; layer++) {
      const under = await this.#fileAt(file, layer);
      if (under.add(hunk)) {
        await this.#write(under);
        return true;
      }
      if (under.proposal.ids.length === 0) {
        this.#open.delete(under.right.toString());
        return false;
      }
    }
    return false;
  }

  /** Proposals for one file share a document; one that overlaps what is there gets a layer of its own. */
  async #fileAt(file: ReviewFile, layer: number): Promise<FileUnderReview> {
    const { uri, kind } = file;
    const target = vscode.Uri.parse(uri);
    const query = layer === 0 ? '' : String(layer + 1);
    const right = target.with({ scheme: PROPOSAL, authority: '', query });
    const known = this.#open.get(right.toString());
    if (known !== undefined) return known;
    const left = kind === 'create' ? target.with({ scheme: EMPTY, authority: '', query }) : target;
    const document = await vscode.workspace.openTextDocument(left);
    const under = new FileUnderReview({ uri, what: whatOf(file), left, right, text: document.getText() });
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
      } else if (under.left.toString() === uri) {
        under.proposal.followLeft(linesOf(document.getText()), changes);
        void this.#write(under);
      } else continue;
      this.#lenses.fire();
    }
  }

  /** Take the server's decisions in. */
  #follow(): void {
    if (this.#open.size === 0) return;
    const hunks = this.#store.view.turns
      .flatMap((turn) => turn.items)
      .flatMap((item) => (item.kind === 'review' ? item.files : []));
    const waiting = new Set(
      hunks
        .flatMap((file) => file.hunks)
        .filter(({ outcome }) => outcome === undefined)
        .map(({ id }) => id),
    );
    for (const under of this.#open.values()) {
      const decided = under.proposal.ids.filter((id) => !waiting.has(id));
      for (const id of decided) under.proposal.decide(id);
      if (decided.length > 0 && !isDone(under)) void this.#write(under);
    }
    this.#lenses.fire();
    void this.#closeDecided();
  }

  /** Bring a proposal's document to what it should read, with the smallest edit, so that the cursor stays. */
  #write(under: FileUnderReview): Promise<void> {
    this.#writing = this.#writing
      .then(() => this.#writeNow(under))
      .catch((error: unknown) => this.#log.warn(`proposal ${under.right.path}: ${messageOf(error)}`));
    return this.#writing;
  }

  async #writeNow(under: FileUnderReview, tries = TRIES): Promise<void> {
    const document = vscode.workspace.textDocuments.find(({ uri }) => uri.toString() === under.right.toString());
    const eol = document?.eol === vscode.EndOfLine.CRLF ? '\r\n' : '\n';
    const wanted = under.proposal.right.join(eol);
    if (document === undefined) {
      this.#files.put(under.right, wanted);
      under.proposal.written(linesOf(wanted));
      return;
    }
    const text = document.getText();
    if (text === wanted) return;
    let head = 0;
    while (head < text.length && head < wanted.length && text[head] === wanted[head]) head++;
    let tail = 0;
    const room = Math.min(text.length, wanted.length) - head;
    while (tail < room && text[text.length - 1 - tail] === wanted[wanted.length - 1 - tail]) tail++;
    const range = new vscode.Range(document.positionAt(head), document.positionAt(text.length - tail));
    const edit = new vscode.WorkspaceEdit();
    edit.replace(under.right, range, wanted.slice(head, wanted.length - tail));
    under.writes = wanted;
    const applied = await vscode.workspace.applyEdit(edit);
    under.writes = undefined; // if its user types the same later, that is an edit of theirs
    if (!applied && tries > 1) await this.#writeNow(under, tries - 1); // the user has typed meanwhile
  }

  /** Close the views of files that have nothing left to decide. */
  #closeDecided(): Promise<void> {
    this.#writing = this.#writing
      .then(() => this.#closeNow())
      .catch((error: unknown) => this.#log.warn(`closing a review: ${messageOf(error)}`));
    return this.#writing;
  }

  async #closeNow(): Promise<void> {
    const done = [...this.#open].filter(([, under]) => isDone(under));
    if (done.length === 0) return;
    for (const [key] of done) this.#open.delete(key);
    const keys = new Set(done.map(([key]) => key));
    await closeTabs((uri) => keys.has(uri.toString()) || this.#open.size === 0);
  }

  // -- deciding -----------------------------------------------------------------------------------------------------

  /** Accept hunks, with the corrections that the user has written into their proposals. */
  async accept(hunks: string[] | 'all', uri?: string): Promise<void> {
    const edited: Record<string, string> = {};
    for (const under of this.#open.values()) {
      if (uri !== undefined && under.uri !== uri) continue;
      const document = await vscode.workspace.openTextDocument(under.left);
      const eol = document.eol === vscode.EndOfLine.CRLF ? '\r\n' : '\n';
      for (const id of under.proposal.ids) {
        const text = hunks === 'all' || hunks.includes(id) ? under.correction(id, eol) : undefined;
        if (text !== undefined) edited[id] = text;
      }
      if (hunks === 'all') for (const change of under.own.reverse()) await this.land(under.right.toString(), change);
    }
    const target = uri === undefined ? {} : { uri };
    await this.#client.run('dsh.review.accept', { ...this.#ofSession(), hunks, edited, ...target });
  }

  async reject(hunks: string[] | 'all', options: { uri?: string; comment?: string } = {}): Promise<void> {
    await this.#client.run('dsh.review.reject', { ...this.#ofSession(), hunks, ...options });
  }

  /** Reject with words for the agent. */
  async rejectWithComment(hunks: string[]): Promise<void> {
    const comment = await vscode.window.showInputBox({
      title: 'DSH: Reject Edit',
      prompt: 'What should the agent do instead?',
      ignoreFocusOut: true,
    });
    if (comment !== undefined) await this.reject(hunks, comment.trim() === '' ? {} : { comment: comment.trim() });
  }

  /** The hunk at the cursor of the active proposal, or the next one below. */
  hunkAtCursor(): string | undefined {
    const editor = vscode.window.activeTextEditor;
    const under = editor && this.#open.get(editor.document.uri.toString());
    if (under === undefined) return undefined;
    const line = editor?.selection.active.line ?? 0;
    const hunks = under.proposal.changes().filter(({ id }) => id !== undefined);
    return (hunks.find(({ right }) => line < Math.max(right[1], right[0] + 1)) ?? hunks.at(-1))?.id;
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
    const right = document.uri.toString();
    const changes = this.#open.get(right)?.proposal.changes() ?? [];
    const hunks = changes.filter(({ id }) => id !== undefined);
    return changes.flatMap((change) => {
      const line = Math.min(change.right[0], document.lineCount - 1);
      const range = new vscode.Range(line, 0, line, 0);
      const lens = (title: string, command: string, ...args: unknown[]) =>
        new vscode.CodeLens(range, { title, command, arguments: args });
      if (change.id === undefined) {
        return [
          lens('$(check)\u00a0Keep my edit', 'dsh.ui.landOwn', right, change),
          lens('$(discard)\u00a0Undo my edit', 'dsh.ui.undoOwn', right, change),
        ];
      }
      const place = hunks.length > 1 ? ` ${hunks.indexOf(change) + 1} of ${hunks.length}` : '';
      return [
        lens(`$(check)\u00a0Accept${place}`, 'dsh.ui.acceptHunk', change.id),
        lens('$(close)\u00a0Reject', 'dsh.ui.rejectHunk', change.id),
        lens('$(comment)\u00a0Reject with a comment', 'dsh.ui.rejectHunkWithComment', change.id),
      ];
    });
  }

  dispose(): void {
    for (const disposable of this.#disposables) disposable.dispose();
  }
}

/** The range and text that replace whole lines of a document, its last line among them. */
function replacement(
  document: vscode.TextDocument,
  start: number,
  end: number,
  lines: string[],
): [vscode.Range, string] {
  const eol = document.eol === vscode.EndOfLine.CRLF ? '\r\n' : '\n';
  if (end < document.lineCount) return [new vscode.Range(start, 0, end, 0), lines.map((line) => line + eol).join('')];
  const last = document.lineAt(document.lineCount - 1).range.end;
  if (start === 0) return [new vscode.Range(new vscode.Position(0, 0), last), lines.join(eol)];
  return [new vscode.Range(document.lineAt(start - 1).range.end, last), lines.map((line) => eol + line).join('')];
}
