/** Extension: joins the parts, and starts the server. */

import * as vscode from 'vscode';
import { showAsks } from './asks.ts';
import { Chat } from './chat.ts';
import { Client } from './client.ts';
import { registerCommands, restartWhenIdle } from './commands.ts';
import { concernsServer } from './config.ts';
import { Context } from './context.ts';
import { KeyStore } from './key.ts';
import { lendLanguage } from './language.ts';
import { shownLenses } from './lenses.ts';
import { tellOutcome } from './outcomes.ts';
import { ProposalFiles } from './proposal_files.ts';
import { Reviews } from './review.ts';
import { closeTabs } from './review_tabs.ts';
import { ServerFinder } from './server.ts';
import { Sessions } from './sessions.ts';
import { StatusItem } from './status.ts';
import { Store } from './store.ts';

let client: Client | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const log = vscode.window.createOutputChannel('DSH', { log: true });
  const keys = new KeyStore(context.secrets);
  const finder = new ServerFinder(context, log);
  const store = new Store();
  const chosen = new Context();
  const [files, filesDisposable] = ProposalFiles.register();
  const connection = new Client({
    context,
    log,
    keys,
    finder,
    lenses: (lenses, uri) => shownLenses(lenses, uri, reviews.shows(uri)),
    requests: (server) => [
      ...lendLanguage(server),
      ...showAsks(server, { chat: () => chat, reviews: () => reviews }),
    ],
  });
  client = connection;
  const sessions = new Sessions({ client: connection, store, kept: context.workspaceState, log });
  const chat = new Chat({ root: context.extensionUri, client: connection, store, sessions, context: chosen, keys });
  const reviews = new Reviews({ client: connection, store, files, log });
  connection.resume = () => sessions.resume();
  context.subscriptions.push(
    log,
    store,
    chosen,
    filesDisposable,
    chat,
    reviews,
    new StatusItem({ client: connection, store, keys }),
    connection.onValue((value) => store.take(value)),
    connection.onValue(tellOutcome),
    connection.onStatus((status) => store.takeStatus(status)),
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (concernsServer(change)) void restartWhenIdle(connection, store);
    }),
    // The folders of a workspace may come some time after its window.
    vscode.workspace.onDidChangeWorkspaceFolders(() => void connection.start()),
    vscode.workspace.onDidGrantWorkspaceTrust(() => void restartWhenIdle(connection, store)),
    ...registerCommands({ client: connection, store, sessions, chat, context: chosen, reviews, keys, finder, log }),
  );
  await closeTabs(() => true); // proposals that the editor restored: their server is gone
  void connection.start();
}

export async function deactivate(): Promise<void> {
  await client?.stop();
}
