/**
 * Sessions: which session is the current one: kept over restarts and reloads, made when it is first needed.
 *
 * Rules: the server's logs are the truth; what is kept here is an id and nothing else.
 */

import * as vscode from 'vscode';
import type { Client } from './client.ts';
import { errorCode, Left, messageOf, NEEDS_FOLDER, unlinked, withoutIcons } from './errors.ts';
import type { Summary } from './protocol.ts';
import type { Store } from './store.ts';

const KEPT = 'session';

export class Sessions {
  readonly #client: Client;
  readonly #store: Store;
  readonly #kept: vscode.Memento;
  readonly #log: vscode.LogOutputChannel;

  readonly #deleted = new vscode.EventEmitter<string>();
  readonly onDidDelete = this.#deleted.event;

  #creating: Promise<string> | undefined;
  /** The folder that the current session is about. */
  root: string | undefined;

  constructor(parts: { client: Client; store: Store; kept: vscode.Memento; log: vscode.LogOutputChannel }) {
    this.#client = parts.client;
    this.#store = parts.store;
    this.#kept = parts.kept;
    this.#log = parts.log;
  }

  /** After a start of the server: go on with the session that was the current one. */
  async resume(): Promise<void> {
    const session = this.#kept.get<string>(KEPT);
    if (session === undefined) return;
    try {
      await this.open(session);
    } catch (error) {
      this.#log.warn(`session ${session} is not opened again: ${messageOf(error)}`);
      this.#store.clear();
      if (errorCode(error) !== 'UNKNOWN_SESSION') {
        void vscode.window.showWarningMessage(
          `DSH: the last session could not be opened: ${unlinked(messageOf(error))}`,
        );
      }
    }
  }

  /** The current session's id; a new session is made if there is none. */
  async current(): Promise<string> {
    await this.#client.start(); // it may be opening the session that was the current one
    if (this.#store.session !== undefined) return this.#store.session;
    this.#creating ??= this.create().finally(() => {
      this.#creating = undefined;
    });
    return this.#creating; // one for all who ask before it is there
  }

  async create(): Promise<string> {
    const root = await chosenRoot();
    const summary = await this.#client.run('dsh.session.new', { root: root.fsPath });
    await this.#show(summary.session);
    return summary.session;
  }

  async open(session: string): Promise<void> {
    const replay = this.#store.beginReplay(session);
    try {
      const { summary } = await this.#client.run('dsh.session.open', { session });
      if (!this.#store.endReplay(replay)) return; // another one was chosen meanwhile
      this.root = summary.root;
    } finally {
      this.#store.dropReplay(replay);
    }
    await this.#kept.update(KEPT, session);
  }

  /** Begin a session with the history of the current one. */
  async fork(turn?: number): Promise<void> {
    const session = await this.current();
    const summary = await this.#client.run('dsh.session.fork', turn === undefined ? { session } : { session, turn });
    await this.open(summary.session);
  }

  async #show(session: string): Promise<void> {
    if (this.#store.session !== session) this.#store.clear(session);
    await this.open(session); // what it began with, its mode among it
  }

  /** Let the user choose a session, rename or delete one. */
  async pick(): Promise<void> {
    const { sessions } = await this.#client.run('dsh.session.list', {});
    const picker = vscode.window.createQuickPick<SessionRow>();
    picker.title = 'DSH: Sessions';
    picker.placeholder = sessions.length > 0 ? 'Open a session' : 'There are no sessions yet';
    picker.matchOnDescription = true;
    picker.items = sessions.map((summary) => rowOf(summary, this.#store.session));
    picker.onDidAccept(() => {
      const [row] = picker.selectedItems;
      picker.hide();
      if (row !== undefined) void this.#tried(() => this.open(row.summary.session));
    });
    picker.onDidTriggerItemButton(({ button, item }) => {
      picker.hide();
      void this.#tried(() => (button === RENAME ? this.#rename(item.summary) : this.#delete(item.summary)));
    });
    picker.onDidHide(() => picker.dispose());
    picker.show();
  }

  async #rename({ session, title }: Summary): Promise<void> {
    const wanted = await vscode.window.showInputBox({ title: 'DSH: Rename Session', value: title ?? '' });
    if (wanted?.trim()) await this.#client.run('dsh.session.rename', { session, title: wanted.trim() });
  }

  async #delete({ session, title }: Summary): Promise<void> {
    const question = `Delete the session "${title ?? session}"? It is moved to a trash folder.`;
    if ((await vscode.window.showWarningMessage(question, { modal: true }, 'Delete')) !== 'Delete') return;
    await this.#client.run('dsh.session.delete', { session });
    this.#deleted.fire(session);
    if (session !== this.#store.session) return;
    this.#store.clear();
    await this.#kept.update(KEPT, undefined);
  }

  async #tried(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      void vscode.window.showErrorMessage(`DSH: ${unlinked(messageOf(error))}`);
    }
  }

  /** Show the current session's transcript as a document. */
  async export(): Promise<void> {
    const session = await this.current();
    const { text } = await this.#client.run('dsh.session.export', { session, format: 'markdown' });
    const document = await vscode.workspace.openTextDocument({ language: 'markdown', content: text });
    await vscode.window.showTextDocument(document);
  }
}

const RENAME: vscode.QuickInputButton = { iconPath: new vscode.ThemeIcon('edit'), tooltip: 'Rename' };
const DELETE: vscode.QuickInputButton = { iconPath: new vscode.ThemeIcon('trash'), tooltip: 'Delete' };

export type SessionRow = vscode.QuickPickItem & { summary: Summary };

export function rowOf(summary: Summary, current: string | undefined): SessionRow {
  const turns = summary.turns === 1 ? '1 turn' : `${summary.turns} turns`;
  const when = new Date(summary.updatedAt).toLocaleString([], { dateStyle: 'medium', timeStyle: 'short' });
  return {
    summary,
    label: `${summary.session === current ? '$(check) ' : ''}${withoutIcons(summary.title ?? 'Untitled')}`,
    description: `${turns}, ${when}`,
    detail: summary.root,
    buttons: [RENAME, DELETE],
  };
}

/**
 * In a workspace of several folders: the folder of the active editor, else the one that the user chooses.
 *
 * Throws `Left` if they choose none.
 */
async function chosenRoot(): Promise<vscode.Uri> {
  const folders = vscode.workspace.workspaceFolders ?? [];
  const [first] = folders;
  if (first === undefined) throw new Error(NEEDS_FOLDER);
  if (folders.length === 1) return first.uri;
  const active = vscode.window.activeTextEditor?.document.uri;
  const around = active && vscode.workspace.getWorkspaceFolder(active);
  const folder =
    around ?? (await vscode.window.showWorkspaceFolderPick({ placeHolder: 'Which folder is the session about?' }));
  if (folder === undefined) throw new Left('choose the folder that the session is about');
  return folder.uri;
}
