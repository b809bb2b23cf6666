/**
 * Fake VS Code: the part of the editor that the modules under test speak with, in memory.
 *
 * Rules: documents, tabs, settings and secrets behave as in the editor; what a test reads is what a user would see.
 */

import * as path from 'node:path';
import {
  Disposable,
  EndOfLine,
  EventEmitter,
  FileSystemError,
  FileType,
  Position,
  Range,
  Selection,
  Uri,
} from './fake_vscode_values.ts';

export * from './fake_vscode_values.ts';

export class WorkspaceEdit {
  readonly edits: { uri: Uri; range: Range; text: string }[] = [];
  replace(uri: Uri, range: Range, text: string): void {
    this.edits.push({ uri, range, text });
  }
}

export class CodeLens {
  readonly range: Range;
  readonly command: { title: string; command: string; arguments?: unknown[] };
  constructor(range: Range, command: CodeLens['command']) {
    this.range = range;
    this.command = command;
  }
}

// -- documents ------------------------------------------------------------------------------------------------------

export class FakeDocument {
  readonly uri: Uri;
  isDirty = false;
  isClosed = false;
  #text: string;
  constructor(uri: Uri, text: string) {
    this.uri = uri;
    this.#text = text;
  }
  get eol(): number {
    return this.#text.includes('\r\n') ? EndOfLine.CRLF : EndOfLine.LF;
  }
  get lineCount(): number {
    return this.#text.split('\n').length;
  }
  getText(range?: Range): string {
    return range ? this.#text.slice(this.#offsetAt(range.start), this.#offsetAt(range.end)) : this.#text;
  }
  lineAt(line: number): { range: Range } {
    const length = (this.#text.split('\n')[line] ?? '').length;
    return { range: new Range(line, 0, line, length) };
  }
  positionAt(offset: number): Position {
    const before = this.#text.slice(0, offset).split('\n');
    return new Position(before.length - 1, (before.at(-1) ?? '').length);
  }
  #offsetAt({ line, character }: Position): number {
    const lines = this.#text.split('\n').slice(0, line);
    return lines.reduce((sum, one) => sum + one.length + 1, 0) + character;
  }
  /** Replace a range, as a user who types does. */
  replace(range: Range, text: string): void {
    const before = this.#text;
    this.#text = before.slice(0, this.#offsetAt(range.start)) + text + before.slice(this.#offsetAt(range.end));
    this.isDirty = true;
    events.changed.fire({ document: this, contentChanges: [{ range, text }] });
  }
  async save(): Promise<boolean> {
    if (!this.isDirty) return true;
    providers.get(this.uri.scheme)?.writeFile(this.uri, new TextEncoder().encode(this.#text));
    this.isDirty = false;
    return true;
  }
}

type Provider = { readFile(uri: Uri): Uint8Array; writeFile(uri: Uri, data: Uint8Array): void };

const providers = new Map<string, Provider>();
const events = {
  changed: new EventEmitter<{ document: FakeDocument; contentChanges: { range: Range; text: string }[] }>(),
  editor: new EventEmitter<FakeEditor | undefined>(),
  selection: new EventEmitter<{ textEditor: FakeEditor }>(),
  tabs: new EventEmitter<{ opened: Tab[]; changed: Tab[] }>(),
};
const none = () => new Disposable(() => {});

function opened(document: FakeDocument): FakeDocument {
  workspace.textDocuments.push(document);
  return document;
}

export type FakeEditor = { document: FakeDocument; selection: Selection };

const matches = (name: string, glob: string) => path.matchesGlob(name, glob);

export class CancellationTokenSource {
  readonly token = { isCancellationRequested: false };
  cancel(): void {
    this.token.isCancellationRequested = true;
  }
}

export const workspace = {
  textDocuments: [] as FakeDocument[],
  workspaceFolders: undefined as { uri: Uri; name: string }[] | undefined,
  getWorkspaceFolder: ({ path: file }: Uri) =>
    workspace.workspaceFolders?.find(({ uri }) => file.startsWith(`${uri.path}/`)),
  isTrusted: true,
  onDidGrantWorkspaceTrust: none,
  onDidChangeTextDocument: events.changed.event,
  async openTextDocument(of: Uri | { content: string }): Promise<FakeDocument> {
    if (!(of instanceof Uri)) return opened(new FakeDocument(Uri.parse('untitled:Untitled-1'), of.content));
    const uri = of;
    const open = workspace.textDocuments.find((one) => one.uri.toString() === uri.toString());
    if (open !== undefined) return open;
    const provider = providers.get(uri.scheme);
    const text = provider ? new TextDecoder().decode(provider.readFile(uri)) : (user.files.get(uri.path) ?? '');
    return opened(new FakeDocument(uri, text));
  },
  async applyEdit({ edits }: WorkspaceEdit): Promise<boolean> {
    await user.pause();
    for (const { uri, range, text } of edits) (await workspace.openTextDocument(uri)).replace(range, text);
    return true;
  },
  registerFileSystemProvider(scheme: string, provider: Provider): Disposable {
    providers.set(scheme, provider);
    return none();
  },
  async findFiles(include: string, exclude: string | undefined, most: number): Promise<Uri[]> {
    const found = [...user.files.keys()]
      .map((file) => ({ file, name: path.posix.relative('/project', file) }))
      .filter(({ name }) => matches(name, include) && (exclude === undefined || !matches(name, exclude)));
    return found.slice(0, most).map(({ file }) => Uri.file(file));
  },
  fs: {
    async stat(uri: Uri): Promise<{ type: number }> {
      if (user.files.has(uri.path)) return { type: FileType.File };
      const isFolder = [...user.files.keys()].some((file) => file.startsWith(`${uri.path}/`));
      if (isFolder) return { type: FileType.Directory };
      throw FileSystemError.FileNotFound(uri);
    },
  },
  registerTextDocumentContentProvider: none,
  asRelativePath: (uri: Uri) => uri.path.replace(/^\/project\//, ''),
  getConfiguration: (section?: string) => ({
    get: (key: string) => user.settings.get(section ? `${section}.${key}` : key),
    inspect: (key: string) => ({ globalValue: user.settings.get(section ? `${section}.${key}` : key) }),
    update: async (key: string, value: unknown) => {
      user.settings.set(`${section}.${key}`, value);
    },
  }),
};

// -- tabs -----------------------------------------------------------------------------------------------------------

export class TabInputText {
  readonly uri: Uri;
  constructor(uri: Uri) {
    this.uri = uri;
  }
}
export class TabInputTextDiff {
  readonly original: Uri;
  readonly modified: Uri;
  constructor(original: Uri, modified: Uri) {
    this.original = original;
    this.modified = modified;
  }
}
type Tab = { label: string; input: unknown; isActive: boolean; shows: Uri[] };
const group = { tabs: [] as Tab[] };

async function show(label: string, input: unknown, shows: Uri[]): Promise<void> {
  for (const uri of shows) await workspace.openTextDocument(uri);
  for (const tab of group.tabs) tab.isActive = false;
  const tab = { label, input, isActive: true, shows };
  group.tabs.push(tab);
  events.tabs.fire({ opened: [tab], changed: [] });
}

export const window = {
  activeTextEditor: undefined as FakeEditor | undefined,
  onDidChangeActiveTextEditor: events.editor.event,
  onDidChangeTextEditorSelection: events.selection.event,
  tabGroups: {
    all: [group],
    activeTabGroup: group,
    onDidChangeTabs: events.tabs.event,
    async close(tabs: Tab[]): Promise<boolean> {
      await user.pause();
      const closed = new Set(tabs.flatMap((tab) => tab.shows.map(String)));
      const unsaved = workspace.textDocuments.filter((one) => one.isDirty && closed.has(String(one.uri)));
      user.asked.push(...unsaved.map(({ uri }) => uri.path));
      group.tabs = group.tabs.filter((tab) => !tabs.includes(tab));
      const shown = new Set(group.tabs.flatMap((tab) => tab.shows.map(String)));
      workspace.textDocuments = workspace.textDocuments.filter(
        ({ uri }) => uri.scheme === 'file' || uri.scheme === 'untitled' || shown.has(String(uri)),
      );
      return true;
    },
  },
  async showInformationMessage(text: string, ...buttons: string[]): Promise<string | undefined> {
    user.told.push(text);
    if (user.answer !== undefined) return user.answer();
    return buttons.find((button) => user.clicks.has(button));
  },
  async showErrorMessage(text: string): Promise<void> {
    user.told.push(text);
  },
  registerWebviewViewProvider: none,
  showInputBox: async () => user.types,
  showWorkspaceFolderPick: async () => undefined, // they leave it
  async showTextDocument(of: FakeDocument | Uri, how: { selection?: Range } = {}): Promise<void> {
    const document = of instanceof Uri ? await workspace.openTextDocument(of) : of;
    user.opened.push({ path: document.uri.path, ...(how.selection ? { line: how.selection.start.line } : {}) });
    await show(document.uri.path, new TabInputText(document.uri), [document.uri]);
  },
};

/** A walkthrough that is known ticks a step whose key turns true; one that was true before ticks nothing. */
function setContext(key: string, value: unknown): void {
  if (value === true && user.context.get(key) !== true && user.walkthroughIsKnown) user.ticked.add(key);
  user.context.set(key, value);
}

type Diff = [left: Uri, right: Uri, title: string];

export const commands = {
  async executeCommand(name: string, ...args: unknown[]): Promise<void> {
    if (name === 'setContext') setContext(args[0] as string, args[1]);
    if (name === 'vscode.open') {
      const [uri, how] = args as [Uri, { selection?: Range }?];
      user.opened.push({ path: uri.path, ...(how?.selection ? { line: how.selection.start.line } : {}) });
    }
    if (name === 'revealInExplorer') user.revealed.push((args[0] as Uri).path);
    if (name === 'vscode.diff') {
      const [left, right, title] = args as Diff;
      await show(title, new TabInputTextDiff(left, right), [left, right]);
    }
    if (name === 'vscode.changes') {
      await user.pause();
      const [title, triples] = args as [string, [Uri, Uri | undefined, Uri][]];
      await show(
        `${title} (${triples.length} files)`,
        undefined,
        triples.flatMap(([, left, right]) => (left ? [left, right] : [right])),
      );
    }
  },
};
export const extensions = {
  getExtension: (id: string) => user.extensions.get(id),
};
export const languages = { registerCodeLensProvider: none };

// -- the user -------------------------------------------------------------------------------------------------------

/** What there is before the editor starts, what its user does, and what they see. */
export const user = {
  files: new Map<string, string>(),
  settings: new Map<string, unknown>(),
  context: new Map<string, unknown>(),
  clicks: new Set<string>(),
  extensions: new Map<string, { activate(): Promise<unknown> }>(),
  answer: undefined as (() => Promise<string | undefined>) | undefined, // else at once, by what they click
  told: [] as string[],
  /** The proposals that the editor asked about, since their tabs were closed unsaved. */
  asked: [] as string[],
  /** How long the editor takes for an edit, and to open and close a tab. */
  pause: async () => {},
  types: undefined as string | undefined,
  opened: [] as { path: string; line?: number }[],
  revealed: [] as string[],
  ticked: new Set<string>(),
  walkthroughIsKnown: false,

  /** Begin with an empty editor. */
  begin(files: Record<string, string> = {}): void {
    user.files = new Map(Object.entries(files));
    for (const some of [user.settings, user.context, user.clicks, user.ticked, user.extensions, providers])
      some.clear();
    user.walkthroughIsKnown = false;
    user.told = [];
    user.asked = [];
    user.pause = async () => {};
    user.answer = undefined;
    user.opened = [];
    user.revealed = [];
    workspace.textDocuments = [];
    group.tabs = [];
    window.activeTextEditor = undefined;
    workspace.workspaceFolders = [{ uri: Uri.file('/project'), name: 'project' }];
  },
  /** Open a walkthrough, whose steps the editor reads a moment later. */
  async openWalkthrough(): Promise<void> {
    await show('Walkthrough: DSH', undefined, []);
    await new Promise((resolve) => setTimeout(resolve, 20));
    user.walkthroughIsKnown = true;
  },
  /** Put the cursor somewhere, or select something; without a document no editor is left. */
  select(document: FakeDocument | undefined, selection = new Selection(0, 0, 0, 0)): void {
    const moved = document !== undefined && window.activeTextEditor?.document === document;
    window.activeTextEditor = document && { document, selection };
    if (moved && window.activeTextEditor) events.selection.fire({ textEditor: window.activeTextEditor });
    else events.editor.fire(window.activeTextEditor);
  },
  /** The files that each tab shows, with what their documents read. */
  tabs(): { label: string; files: string[] }[] {
    return group.tabs.map(({ label, shows }) => ({
      label,
      files: shows.filter((uri) => uri.scheme !== 'file').map((uri) => uri.path),
    }));
  },
  /** The document that a tab shows for a file in a review. */
  proposal(path: string, query = ''): FakeDocument | undefined {
    return workspace.textDocuments.find(
      ({ uri }) =>
        uri.scheme === 'dsh-proposal' && uri.path === path && (query === '' || uri.query.startsWith(query)),
    );
  },
};
