/**
 * Commands: the one table of what the palette, menus and keys can do.
 *
 * Rules: each is named `dsh.ui.*`, since a client registers the server's own commands as they are; what goes wrong is
 * told once, in the user's words.
 */

import * as vscode from 'vscode';
import type { Chat } from './chat.ts';
import type { Client, Connection } from './client.ts';
import { DEMO, keyOwner } from './config.ts';
import { type Context, documentChip, fileChip, selectionChip } from './context.ts';
import { errorCode, Left, messageOf, unlinked } from './errors.ts';
import type { KeyStore } from './key.ts';
import { pickMode, pickModel, pickProvider, pickTurn } from './picks.ts';
import type { Change } from './proposal.ts';
import { type ContextItem, ofSession } from './protocol.ts';
import type { Restarts } from './restarts.ts';
import type { Of as FileOf, Reviews } from './review.ts';
import type { ServerFinder } from './server.ts';
import type { Sessions } from './sessions.ts';
import type { Store } from './store.ts';
import { runningTurn } from './view.ts';

export type Parts = {
  client: Client;
  store: Store;
  sessions: Sessions;
  chat: Chat;
  context: Context;
  reviews: Reviews;
  keys: KeyStore;
  finder: ServerFinder;
  restarts: Restarts;
  log: vscode.LogOutputChannel;
};

type Command = (parts: Parts, ...args: never[]) => unknown;

export const COMMANDS: Record<string, Command> = {
  'dsh.ui.ask': ({ chat }, draft?: string) => chat.open(typeof draft === 'string' ? draft : undefined),
  'dsh.ui.askAboutSelection': askAboutSelection,
  'dsh.ui.steer': ({ chat }) => sayFrom(chat, 'steer', 'DSH: Steer', 'Joins the running turn at its next step'),
  'dsh.ui.inject': ({ chat }) =>
    sayFrom(chat, 'inject', 'DSH: Inject Context', 'The agent reads it at its next step'),
  'dsh.ui.cancel': ({ client, store }) => client.run('dsh.cancel', ofSession(store.session)),
  'dsh.ui.retry': ({ client, store }) => client.run('dsh.retry', ofSession(store.session)),
  'dsh.ui.resumeQueue': ({ client, store }) => client.run('dsh.inbox.resume', ofSession(store.session)),
  'dsh.ui.newSession': async ({ sessions, chat }) => {
    await chat.open(); // before the session is there: whoever sees it types
    await sessions.create();
  },
  'dsh.ui.sessions': ({ sessions }) => sessions.pick(),
  'dsh.ui.forkSession': ({ sessions }, turn?: number) => sessions.fork(typeof turn === 'number' ? turn : undefined),
  'dsh.ui.exportSession': ({ sessions }) => sessions.export(),
  'dsh.ui.reviewEdits': ({ reviews }, uri?: string) => reviews.show(typeof uri === 'string' ? { uri } : {}),
  'dsh.ui.acceptAll': ({ reviews }) => reviews.accept('all'),
  'dsh.ui.rejectAll': ({ reviews }) => reviews.reject('all'),
  'dsh.ui.acceptFile': ({ reviews }, right?: unknown) =>
    withFile(reviews, right, (file) => reviews.accept('all', file)),
  'dsh.ui.rejectFile': ({ reviews }, right?: unknown) =>
    withFile(reviews, right, (file) => reviews.reject('all', file)),
  'dsh.ui.acceptHunk': ({ reviews }, id?: string) => withHunk(reviews, id, (hunk) => reviews.accept([hunk])),
  'dsh.ui.rejectHunk': ({ reviews }, id?: string) => withHunk(reviews, id, (hunk) => reviews.reject([hunk])),
  'dsh.ui.rejectHunkWithComment': ({ reviews }, id?: string) =>
    withHunk(reviews, id, (hunk) => rejectWithComment(reviews, hunk)),
  'dsh.ui.landOwn': ({ reviews }, right: string, change: Change) => reviews.land(right, change),
  'dsh.ui.undoOwn': ({ reviews }, right: string, change: Change) => reviews.undo(right, change),
  'dsh.ui.allow': ({ chat }) => chat.decide('allowOnce'),
  'dsh.ui.allowForSession': ({ chat }) => chat.decide('allowSession'),
  'dsh.ui.reject': ({ chat }) => chat.decide('reject'),
  'dsh.ui.rewindTurn': rewindTurn,
  'dsh.ui.selectModel': ({ client, store }) => pickModel(client, store),
  'dsh.ui.setMode': ({ client, store }) => pickMode(client, store),
  'dsh.ui.compact': ({ client, store }) => client.run('dsh.compact', ofSession(store.session)),
  'dsh.ui.setApiKey': setApiKey,
  'dsh.ui.useDemo': (parts) => useProvider(parts, DEMO),
  'dsh.ui.installServer': async ({ finder, client }) => {
    if (await finder.install()) await client.restart();
  },
  'dsh.ui.openFolder': () => vscode.commands.executeCommand('vscode.openFolder'),
  'dsh.ui.restartServer': ({ client }) => client.restart(),
  'dsh.ui.showLog': ({ log }) => log.show(),
  'dsh.ui.addFile': ({ context, chat }, uri?: vscode.Uri, selected?: vscode.Uri[]) => {
    const active = vscode.window.activeTextEditor?.document;
    if (uri instanceof vscode.Uri) for (const one of selected?.length ? selected : [uri]) context.add(fileChip(one));
    else if (active !== undefined) context.add(documentChip(active));
    return chat.open();
  },
  'dsh.ui.addSelection': ({ context, chat }) => {
    addSelection(context);
    return chat.open();
  },
  'dsh.ui.followup': async ({ chat }, { text, context }: { text: string; context?: ContextItem[] }) => {
    await chat.open();
    await chat.say('followup', text, context);
  },
};

/** Register all commands; what one of them throws is told to the user. */
export function registerCommands(parts: Parts): vscode.Disposable[] {
  return Object.entries(COMMANDS).map(([name, run]) =>
    vscode.commands.registerCommand(name, async (...args: unknown[]) => {
      try {
        await run(parts, ...(args as never[]));
      } catch (error) {
        await tell(error);
      }
    }),
  );
}

async function tell(error: unknown): Promise<void> {
  if (error instanceof Left) return;
  const button = errorCode(error) === 'NO_KEY' ? 'Set API Key' : 'Show Log';
  const choice = await vscode.window.showErrorMessage(`DSH: ${unlinked(messageOf(error))}`, button);
  if (choice === 'Set API Key') await vscode.commands.executeCommand('dsh.ui.setApiKey');
  else if (choice === 'Show Log') await vscode.commands.executeCommand('dsh.ui.showLog');
}

function askAboutSelection({ context, chat }: Parts): Thenable<void> {
  addSelection(context);
  return chat.open();
}

function addSelection(context: Context): void {
  const editor = vscode.window.activeTextEditor;
  const chip = editor && selectionChip(editor);
  if (chip !== undefined) context.add(chip);
}

async function sayFrom(chat: Chat, how: 'steer' | 'inject', title: string, prompt: string): Promise<void> {
  const text = await vscode.window.showInputBox({ title, prompt, ignoreFocusOut: true });
  if (text?.trim()) await chat.say(how, text.trim());
}

async function withHunk(reviews: Reviews, id: unknown, decide: (hunk: string) => Promise<void>): Promise<void> {
  const hunk = typeof id === 'string' ? id : reviews.hunkAtCursor();
  if (hunk !== undefined) await decide(hunk);
}

async function rejectWithComment(reviews: Reviews, hunk: string): Promise<void> {
  const comment = await vscode.window.showInputBox({
    title: 'DSH: Reject Edit',
    prompt: 'What should the agent do instead?',
    ignoreFocusOut: true,
  });
  if (comment !== undefined) await reviews.reject([hunk], undefined, comment.trim() || undefined);
}

async function withFile(reviews: Reviews, right: unknown, decide: (file: FileOf) => Promise<void>): Promise<void> {
  const file = reviews.fileOf(right instanceof vscode.Uri ? right : undefined);
  if (file !== undefined) await decide(file);
}

async function rewindTurn({ client, store }: Parts, given?: number): Promise<void> {
  const turn = typeof given === 'number' ? given : await pickTurn(store.view);
  if (turn === undefined) return;
  const detail = 'What you have changed since then stays; the conversation stays, too.';
  const question = `Take back the edits of turn ${turn}?`;
  if ((await vscode.window.showWarningMessage(question, { modal: true, detail }, 'Rewind')) !== 'Rewind') return;
  await client.run('dsh.rewind', { ...ofSession(store.session), turn });
}

/** A key reaches the server by its environment, so it starts again: never in mid-turn. */
async function setApiKey(parts: Parts): Promise<void> {
  const { restarts, keys, chat } = parts;
  const owner = keyOwner();
  const provider = owner === DEMO ? await pickProvider() : owner;
  if (provider === undefined || !(await keys.ask(provider))) return;
  if (owner === DEMO) return useProvider(parts, provider);
  await chat.refresh();
  await restarts.whenIdle();
}

/** A session keeps its model, so that another provider begins one of its own, unless its user was faster. */
async function useProvider({ chat, restarts, sessions, store }: Parts, provider: string): Promise<void> {
  const { session } = store;
  await vscode.workspace
    .getConfiguration('dsh')
    .update('model.provider', provider, vscode.ConfigurationTarget.Global);
  await chat.refresh();
  await chat.open(); // at once: some seconds later it would take the focus from whoever types elsewhere
  await restarts.whenIdle();
  if (store.session === session) await sessions.create();
}

const OFF = new Set<Connection['kind']>(['stopped', 'missing', 'noFolder']);

/** Resolves when no turn runs, as none does without a server; tells the user if they wait for it. */
export async function turnHasEnded(store: Store, client: Parts['client']): Promise<void> {
  const runs = () => runningTurn(store.view) !== undefined && !OFF.has(client.connection.kind);
  if (!runs()) return;
  void vscode.window.showInformationMessage('DSH: takes effect when the running turn has ended.');
  await new Promise<void>((resolve) => {
    const check = () => {
      if (runs()) return;
      for (const listener of listeners) listener.dispose();
      resolve();
    };
    const listeners = [store.onDidChange(check), client.onDidChangeConnection(check)];
  });
}
