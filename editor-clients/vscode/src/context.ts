/**
 * Context: what goes with the next message: files and selections that the user has chosen.
 *
 * Rules: nothing is added by itself; what the active editor shows is only suggested; a part of a document stays the
 * same text while the document is edited; of a document that only the editor has, the text goes along.
 */

import * as path from 'node:path';
import * as vscode from 'vscode';
import type { Chip } from './chat_messages.ts';
import { movedRange, type TextEdit } from './moved_range.ts';
import type { Range } from './protocol.ts';

const MAX_FOUND = 30;
const MAX_SEARCHED = 5_000;
const TYPES_MS = 80; // a query that is typed further is not searched for

export class Context implements vscode.Disposable {
  chips: Chip[] = [];
  suggested: Chip | undefined;
  readonly #changed = new vscode.EventEmitter<void>();
  readonly onDidChange = this.#changed.event;
  readonly #listeners: vscode.Disposable;
  #finding: vscode.CancellationTokenSource | undefined;

  constructor() {
    this.suggested = suggestion(vscode.window.activeTextEditor);
    this.#listeners = vscode.Disposable.from(
      vscode.window.onDidChangeActiveTextEditor((editor) => this.#suggest(editor)),
      vscode.window.onDidChangeTextEditorSelection(({ textEditor }) => this.#suggest(textEditor)),
      vscode.workspace.onDidChangeTextDocument((event) => this.#follow(event)),
    );
  }

  /** A document was edited: its parts move with their text; one that is deleted is none any more. */
  #follow({ document, contentChanges }: vscode.TextDocumentChangeEvent): void {
    const uri = document.uri.toString();
    const here = this.chips.filter(({ item }) => item.uri === uri);
    if (contentChanges.length === 0 || here.length === 0) return;
    const gone = here.filter((chip) => !follow(chip, document, contentChanges));
    if (here.some(({ item }) => item.range !== undefined)) this.clear(gone); // else nothing that shows has changed
  }

  #suggest(editor: vscode.TextEditor | undefined): void {
    const chip = suggestion(editor);
    if (chip !== undefined && this.suggested !== undefined && sameChip(chip, this.suggested)) return;
    if (chip === this.suggested) return;
    this.suggested = chip;
    this.#changed.fire();
  }

  add(chip: Chip): void {
    if (!this.chips.some((known) => sameChip(known, chip))) this.chips = [...this.chips, chip];
    this.#changed.fire();
  }

  remove(index: number): void {
    this.chips = this.chips.filter((_, at) => at !== index);
    this.#changed.fire();
  }

  /** Forget what has been sent, or is gone. */
  clear(sent: Chip[]): void {
    this.chips = this.chips.filter((chip) => !sent.includes(chip));
    this.#changed.fire();
  }

  /** Files of the workspace whose path fits, the best first; none if something else is asked for meanwhile. */
  async find(query: string): Promise<Chip[]> {
    this.#finding?.cancel();
    this.#finding = new vscode.CancellationTokenSource();
    const { token } = this.#finding;
    await new Promise((resolve) => setTimeout(resolve, TYPES_MS));
    if (token.isCancellationRequested) return [];
    const uris = await vscode.workspace.findFiles(globOf(query), hidden(), MAX_SEARCHED, token);
    const wanted = query.toLowerCase();
    return uris
      .map((uri) => ({ uri, name: vscode.workspace.asRelativePath(uri) }))
      .sort(
        (a, b) =>
          rank(a.name, wanted) - rank(b.name, wanted) || a.name.length - b.name.length || (a.name < b.name ? -1 : 1),
      )
      .slice(0, MAX_FOUND)
      .map(({ uri }) => fileChip(uri));
  }

  dispose(): void {
    this.#listeners.dispose();
    this.#changed.dispose();
  }
}

/** The files whose path has these words in it, whatever their case. */
function globOf(query: string): string {
  if (query === '') return '**/*';
  const words = [...query]
    .map((one) => {
      const [low, up] = [one.toLowerCase(), one.toUpperCase()];
      if (low !== up) return `[${low}${up}]`;
      return '*?[]{}!,'.includes(one) ? `[${one}]` : one;
    })
    .join('');
  return `{**/*${words}*,**/*${words}*/**}`;
}

/** What the user does not search in; what the editor hides besides is left out anyway. */
function hidden(): string | undefined {
  const excluded = vscode.workspace.getConfiguration('search').get<Record<string, unknown>>('exclude') ?? {};
  const globs = Object.keys(excluded).filter((glob) => excluded[glob] === true);
  return globs.length > 1 ? `{${globs.join(',')}}` : globs[0];
}

function rank(name: string, wanted: string): number {
  const base = path.posix.basename(name).toLowerCase();
  return base.startsWith(wanted) ? 0 : base.includes(wanted) ? 1 : 2;
}

function sameChip(a: Chip, b: Chip): boolean {
  return JSON.stringify(a.item) === JSON.stringify(b.item);
}

export function fileChip(uri: vscode.Uri): Chip {
  const name = vscode.workspace.getWorkspaceFolder(uri)?.name;
  const named = vscode.workspace.workspaceFolders?.filter((folder) => folder.name === name) ?? [];
  const detail = named.length > 1 ? uri.fsPath : vscode.workspace.asRelativePath(uri); // that begins with the name alone
  return { label: path.posix.basename(uri.path), detail, item: { uri: uri.toString() } };
}

/** A document; one that is no file is known to nobody else, so that its text is given. */
export function documentChip(document: vscode.TextDocument): Chip {
  const chip = fileChip(document.uri);
  return document.uri.scheme === 'file' ? chip : { ...chip, item: { ...chip.item, text: document.getText() } };
}

/** Bring a chip up to an edit of its document, as the same one: it may be on its way. False if its part is gone. */
function follow(chip: Chip, document: vscode.TextDocument, edits: readonly TextEdit[]): boolean {
  const { range } = chip.item;
  const place = range && movedRange(range, edits);
  if (range !== undefined && place === undefined) return false;
  Object.assign(chip, place === undefined ? documentChip(document) : partChip(document, place));
  return true;
}

/** What is selected in an editor, whole lines where the selection spans several; undefined if nothing is. */
export function selectionChip({ document, selection }: vscode.TextEditor): Chip | undefined {
  return selection.isEmpty ? undefined : partChip(document, selection);
}

function partChip(document: vscode.TextDocument, { start, end }: Range): Chip {
  const last = end.character === 0 && end.line > start.line ? end.line - 1 : end.line;
  const lines = start.line === last ? `${start.line + 1}` : `${start.line + 1}-${last + 1}`;
  const range = {
    start: { line: start.line, character: start.character },
    end: { line: end.line, character: end.character },
  };
  const file = fileChip(document.uri);
  const part = new vscode.Range(start.line, start.character, end.line, end.character);
  return {
    label: `${file.label}:${lines}`,
    detail: `${file.detail}:${lines}`,
    item: {
      uri: document.uri.toString(),
      range,
      ...(document.uri.scheme === 'file' ? {} : { text: document.getText(part) }),
    },
  };
}

function suggestion(editor: vscode.TextEditor | undefined): Chip | undefined {
  if (editor === undefined || editor.document.uri.scheme !== 'file') return undefined;
  return selectionChip(editor) ?? fileChip(editor.document.uri);
}
