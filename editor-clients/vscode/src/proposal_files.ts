/**
 * Proposal files: the documents of proposals, writable and in memory.
 *
 * Rules: nothing of them reaches the disk; what is typed is kept at once, so that saving one changes nothing and a tab
 * that is closed without saving loses nothing; `dsh-empty:` is the left side of a new file.
 */

import * as vscode from 'vscode';

export const PROPOSAL = 'dsh-proposal';
export const EMPTY = 'dsh-empty';

type Entry = { data: Uint8Array; mtime: number };

export class ProposalFiles implements vscode.FileSystemProvider {
  readonly #entries = new Map<string, Entry>();
  readonly #changed = new vscode.EventEmitter<vscode.FileChangeEvent[]>();
  readonly onDidChangeFile = this.#changed.event;

  static register(): [ProposalFiles, vscode.Disposable] {
    const files = new ProposalFiles();
    const disposables = [
      vscode.workspace.registerFileSystemProvider(PROPOSAL, files, { isCaseSensitive: true }),
      vscode.workspace.registerTextDocumentContentProvider(EMPTY, { provideTextDocumentContent: () => '' }),
    ];
    return [files, vscode.Disposable.from(...disposables)];
  }

  put(uri: vscode.Uri, text: string): void {
    this.writeFile(uri, new TextEncoder().encode(text));
  }

  /** Keep what a document reads that is not saved; as no change, since for the editor the newer text is its own. */
  keep(uri: vscode.Uri, text: string): void {
    const entry = this.#entries.get(uri.toString());
    if (entry !== undefined) entry.data = new TextEncoder().encode(text);
  }

  stat(uri: vscode.Uri): vscode.FileStat {
    const { data, mtime } = this.#get(uri);
    return { type: vscode.FileType.File, ctime: 0, mtime, size: data.length };
  }

  readFile(uri: vscode.Uri): Uint8Array {
    return this.#get(uri).data;
  }

  writeFile(uri: vscode.Uri, data: Uint8Array): void {
    const before = this.#entries.get(uri.toString());
    this.#entries.set(uri.toString(), { data, mtime: Math.max(Date.now(), (before?.mtime ?? 0) + 1) });
    const type = before === undefined ? vscode.FileChangeType.Created : vscode.FileChangeType.Changed;
    this.#changed.fire([{ type, uri }]);
  }

  #get(uri: vscode.Uri): Entry {
    const entry = this.#entries.get(uri.toString());
    if (entry === undefined) throw vscode.FileSystemError.FileNotFound(uri);
    return entry;
  }

  watch(): vscode.Disposable {
    return new vscode.Disposable(() => {});
  }

  readDirectory(): [string, vscode.FileType][] {
    return [];
  }

  /** Every folder is there: else a proposal that the editor restored with its window could not be saved, and so closed. */
  createDirectory(): void {}

  delete(uri: vscode.Uri): void {
    throw vscode.FileSystemError.NoPermissions(uri);
  }

  rename(uri: vscode.Uri): void {
    throw vscode.FileSystemError.NoPermissions(uri);
  }
}
