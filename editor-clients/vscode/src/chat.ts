/**
 * Chat: the side bar's page: tells it what the session shows, and does what its user asks.
 *
 * Rules: the page draws and nothing else; it may be thrown away at any time, so all that counts is here or in the
 * server; it loads nothing from outside, runs no script but ours, and takes no HTML from a model.
 */

import { randomBytes } from 'node:crypto';
import * as path from 'node:path';
import * as vscode from 'vscode';
import type { Frame, FromPage, How, ToPage } from './chat_messages.ts';
import type { Client } from './client.ts';
import { baseUrl, DEMO } from './config.ts';
import type { Context } from './context.ts';
import { errorCode, messageOf, unlinked } from './errors.ts';
import type { KeyStore } from './key.ts';
import { targetOf } from './links.ts';
import { type ContextItem, type Decision, ofSession } from './protocol.ts';
import type { Sessions } from './sessions.ts';
import type { Change, Store } from './store.ts';
import { waitingFor } from './view.ts';

export const VIEW = 'dsh.chat';

/** What a page that is not in sight is told when it is there again. */
const KEPT = new Set<ToPage['kind']>(['decide', 'focus']);

type Certain = Extract<ToPage, { id: number }>;
type Untold<T> = T extends Certain ? Omit<T, 'id'> : never;

type Parts = {
  root: vscode.Uri;
  client: Pick<Client, 'run' | 'connection' | 'onDidChangeConnection'>;
  store: Store;
  sessions: Pick<Sessions, 'current' | 'root'>;
  context: Context;
  keys: Pick<KeyStore, 'has'>;
};

export class Chat implements vscode.WebviewViewProvider, vscode.Disposable {
  /** Whether the page has the keyboard's focus. */
  focused = false;
  readonly #parts: Parts;
  readonly #disposables: vscode.Disposable[];
  #view: vscode.WebviewView | undefined;
  #ready = false;
  #pending: ToPage[] = [];
  /** What no page has taken yet. */
  readonly #untaken = new Map<number, Certain>();
  #lastId = 0;
  readonly #unsaved = new Map<string, string[]>();
  #hasKey = true;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#disposables = [
      vscode.window.registerWebviewViewProvider(VIEW, this),
      parts.store.onDidChange((change) => this.#tell(change)),
      parts.client.onDidChangeConnection(() => void this.refresh()),
      parts.context.onDidChange(() => this.#postFrame()),
      vscode.workspace.onDidGrantWorkspaceTrust(() => this.#postFrame()),
    ];
  }

  get visible(): boolean {
    return this.#view?.visible ?? false;
  }

  resolveWebviewView(view: vscode.WebviewView): void {
    this.#view = view;
    this.#ready = false;
    const media = vscode.Uri.joinPath(this.#parts.root, 'dist', 'webview');
    view.webview.options = { enableScripts: true, localResourceRoots: [media] };
    view.webview.onDidReceiveMessage((message: FromPage) => this.#take(message));
    view.onDidDispose(() => {
      this.#view = undefined;
      this.#ready = false;
    });
    view.onDidChangeVisibility(() => {
      if (!view.visible) this.#ready = false; // the page is gone; it says when it is there again
      if (!view.visible) void this.#setFocused(false);
    });
    view.webview.html = pageOf(view.webview, media);
    this.#showHead();
  }

  /** Show the chat with the cursor in its input; `draft` goes before what stands there. */
  async open(draft?: string): Promise<void> {
    // A page that has the focus would lose it for a moment, and with it the keys that fall then.
    if (!this.focused) await vscode.commands.executeCommand(`${VIEW}.focus`);
    if (draft !== undefined) this.#tellSurely({ kind: 'draft', text: draft });
    this.#post({ kind: 'focus' });
  }

  /** Decide on the permission that waits, as its buttons do: nothing is decided that is not on the screen. */
  async decide(decision: Decision): Promise<void> {
    if (this.visible && this.#ready) return this.#post({ kind: 'decide', decision });
    await this.open();
    this.#post({ kind: 'decide' });
  }

  /** Tell the page again what stands around the session: a key was stored, the connection changed. */
  async refresh(): Promise<void> {
    this.#hasKey = await this.#parts.keys.has();
    this.#postFrame();
  }

  // -- to the page --------------------------------------------------------------------------------------------------

  #frame(): Frame {
    const { client, context } = this.#parts;
    const provider = vscode.workspace.getConfiguration('dsh').get<string>('model.provider');
    const folder = vscode.workspace.workspaceFolders?.[0]?.name;
    return {
      connection: client.connection,
      hasKey: this.#hasKey,
      needsKey: provider !== DEMO && baseUrl() === undefined,
      trusted: vscode.workspace.isTrusted,
      chips: context.chips,
      ...(folder === undefined ? {} : { folder }),
      ...(context.suggested === undefined ? {} : { suggested: context.suggested }),
    };
  }

  #tell(change: Change): void {
    const { store } = this.#parts;
    if (change.kind === 'values') this.#post({ kind: 'values', values: change.values });
    else if (change.kind === 'status')
      this.#post({ kind: 'status', ...(store.status ? { status: store.status } : {}) });
    else this.#postView();
    this.#showHead();
  }

  #postView(): void {
    const { store } = this.#parts;
    this.#post({
      kind: 'view',
      view: store.view,
      frame: this.#frame(),
      ...(store.session ? { session: store.session } : {}),
      ...(store.status ? { status: store.status } : {}),
    });
  }

  #postFrame(): void {
    this.#post({ kind: 'frame', frame: this.#frame() });
  }

  #post(message: ToPage): void {
    if (this.#ready) void this.#view?.webview.postMessage(message);
    else if (KEPT.has(message.kind)) this.#pending.push(message); // the rest comes with the view
  }

  /** Tell a page, and if that one is thrown away, the next; ids grow over the starts of the window, too. */
  #tellSurely(message: Untold<ToPage>): void {
    this.#lastId = Math.max(Date.now(), this.#lastId + 1);
    const certain = { ...message, id: this.#lastId } as Certain;
    this.#untaken.set(certain.id, certain);
    this.#post(certain);
  }

  /** What stands around the page: the session's title, and a badge when the agent waits for a person. */
  #showHead(): void {
    if (this.#view === undefined) return;
    this.#view.title = this.#parts.store.view.title || 'Chat'; // a description is not seen where a view is the only one
    const waits = waitingFor(this.#parts.store.view);
    const person = waits !== undefined && waits !== 'retry';
    this.#view.badge = person
      ? { value: 1, tooltip: `DSH waits for ${waits === 'review' ? 'your review' : 'you'}` }
      : undefined;
  }

  async #setFocused(focused: boolean): Promise<void> {
    this.focused = focused;
    await vscode.commands.executeCommand('setContext', 'dsh.chatFocus', focused);
  }

  // -- from the page ------------------------------------------------------------------------------------------------

  #take(message: FromPage): void {
    void this.#do(message).catch((error: unknown) => {
      if (errorCode(error) === 'ALREADY_CLAIMED' || errorCode(error) === 'NOT_PENDING') return; // the page shows it in a moment
      void vscode.window.showErrorMessage(`DSH: ${unlinked(messageOf(error))}`);
    });
  }

  async #do(message: FromPage): Promise<void> {
    const { client, context, store } = this.#parts;
    const shown = ofSession(store.session);
    switch (message.kind) {
      case 'ready':
        this.#ready = true;
        this.#hasKey = await this.#parts.keys.has();
        store.tell();
        this.#postView();
        for (const waiting of [...this.#untaken.values(), ...this.#pending.splice(0)]) this.#post(waiting);
        return;
      case 'took':
        this.#untaken.delete(message.id);
        return;
      case 'focused':
        return this.#setFocused(message.focused);
      case 'send':
        return this.#send(message.how, message.text);
      case 'run':
        if (!message.command.startsWith('dsh.ui.')) return;
        return void (await vscode.commands.executeCommand(message.command, ...message.args));
      case 'approve':
        return this.#approve(message);
      case 'answer':
        return void (await client.run('dsh.answer', {
          ...shown,
          question: message.question,
          answer: message.answer,
        }));
      case 'editWaiting':
        return this.#editWaiting(message);
      case 'removeWaiting':
        return void (await client.run('dsh.inbox.remove', { ...shown, message: message.message }));
      case 'open':
        return openFile(this.#root, message.path, message.line);
      case 'link':
        return this.#openLink(message.href);
      case 'copy':
        return vscode.env.clipboard.writeText(message.text);
      case 'findFiles':
        return this.#post({ kind: 'files', query: message.query, files: await context.find(message.query) });
      case 'addChip':
        return context.add(message.chip);
      case 'removeChip':
        return context.remove(message.index);
    }
  }

  /** Change a message that waits; what was written into one that is taken meanwhile becomes a draft. */
  async #editWaiting({ message, text }: Extract<FromPage, { kind: 'editWaiting' }>): Promise<void> {
    const { client, store } = this.#parts;
    try {
      await client.run('dsh.inbox.edit', { ...ofSession(store.session), message, text });
    } catch (error) {
      this.#tellSurely({ kind: 'draft', text });
      throw error;
    }
  }

  get #root(): vscode.Uri | undefined {
    const { root } = this.#parts.sessions;
    return root === undefined ? vscode.workspace.workspaceFolders?.[0]?.uri : vscode.Uri.file(root);
  }

  /** A link that a model wrote: the web goes through the editor's own question, a path is opened as a file. */
  async #openLink(href: string): Promise<void> {
    const target = targetOf(href);
    if (target.kind === 'web') await vscode.env.openExternal(vscode.Uri.parse(target.href, true));
    else if (target.kind === 'file') await openFile(this.#root, target.file, target.line, target.endLine);
  }

  /** The documents whose unsaved text a call would not see. */
  noteUnsaved(approval: string, uris: string[]): void {
    this.#unsaved.set(approval, uris);
  }

  async #approve({ approval, decision, comment }: Extract<FromPage, { kind: 'approve' }>): Promise<void> {
    const { client, store } = this.#parts;
    const dirty = vscode.workspace.textDocuments.filter(
      ({ uri, isDirty }) =>
        isDirty && this.#unsaved.get(approval)?.some((one) => vscode.Uri.parse(one).path === uri.path),
    );
    let save = false;
    if (decision !== 'reject' && dirty.length > 0) {
      const names = dirty.map(({ uri }) => vscode.workspace.asRelativePath(uri)).join(', ');
      const detail = `It would not see what is unsaved in ${names}.`;
      const [yes, no] = ['Save and Run', 'Run Anyway'];
      const choice = await vscode.window.showWarningMessage(
        'Run it with unsaved text?',
        { modal: true, detail },
        yes,
        no,
      );
      if (choice === undefined) return;
      save = choice === yes;
    }
    const shown = ofSession(store.session);
    const more = { ...(comment ? { comment } : {}), ...(save ? { save } : {}) };
    await client.run('dsh.approve', { ...shown, approval, decision, ...more });
  }

  /** Send the user's words; the page keeps them until they are accepted. */
  async #send(how: How, text: string): Promise<void> {
    const { context } = this.#parts;
    const { chips } = context;
    try {
      await this.say(
        how,
        text,
        chips.map(({ item }) => item),
      );
      context.clear(chips);
      this.#tellSurely({ kind: 'sent', text });
    } catch (error) {
      const code = errorCode(error);
      const told = { text: messageOf(error), ...(code === undefined ? {} : { code }) };
      this.#tellSurely({ kind: 'sent', text, error: told });
    }
  }

  /** Give the agent words, with what they are about. */
  async say(how: How, text: string, context: ContextItem[] = []): Promise<void> {
    const { client, sessions } = this.#parts;
    const session = await sessions.current();
    await client.run(`dsh.${how}`, { session, text, ...(context.length > 0 ? { context } : {}) });
  }

  dispose(): void {
    for (const disposable of this.#disposables) disposable.dispose();
  }
}

/**
 * Open a file, of whatever kind, or show a folder; a path is one of the session's folder, which may be any of the window's.
 *
 * Throws if there is nothing of that name.
 */
async function openFile(root: vscode.Uri | undefined, file: string, line?: number, endLine = line): Promise<void> {
  const uri = /^[a-z][\w+.-]+:\/\//i.test(file)
    ? vscode.Uri.parse(file)
    : path.isAbsolute(file) || root === undefined
      ? vscode.Uri.file(file)
      : vscode.Uri.joinPath(root, file);
  const found = await vscode.workspace.fs.stat(uri).then(
    ({ type }) => type,
    () => undefined,
  );
  if (found === undefined) throw new Error(`there is no ${vscode.workspace.asRelativePath(uri)}`);
  if (found & vscode.FileType.Directory) {
    await vscode.commands.executeCommand('revealInExplorer', uri);
  } else if (line === undefined || endLine === undefined) {
    await vscode.commands.executeCommand('vscode.open', uri);
  } else {
    const start = new vscode.Position(Math.max(0, line - 1), 0);
    const end = endLine > line ? new vscode.Position(endLine, 0) : start;
    await vscode.commands.executeCommand('vscode.open', uri, { selection: new vscode.Range(start, end) });
  }
}

function pageOf(webview: vscode.Webview, media: vscode.Uri): string {
  const nonce = randomBytes(16).toString('base64');
  const source = (file: string) => webview.asWebviewUri(vscode.Uri.joinPath(media, file));
  const policy = [
    "default-src 'none'",
    `style-src ${webview.cspSource}`,
    `font-src ${webview.cspSource}`,
    `script-src 'nonce-${nonce}'`,
  ].join('; ');
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>DSH Chat</title>
<link rel="stylesheet" href="${source('codicon.css')}">
<link rel="stylesheet" href="${source('main.css')}">
</head>
<body><main id="app"></main><script nonce="${nonce}" src="${source('main.js')}"></script></body>
</html>`;
}
