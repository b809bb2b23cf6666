/** Extension: joins the parts, and starts the server. */

import * as vscode from 'vscode';
import { showAsks } from './asks.ts';
import { Chat } from './chat.ts';
import { Client } from './client.ts';
import { registerCommands, turnHasEnded } from './commands.ts';
import { baseUrl, concernsServer } from './config.ts';
import { Context } from './context.ts';
import { Corrections } from './corrections.ts';
import { KeyStore } from './key.ts';
import { lendLanguage } from './language.ts';
import { shownLenses } from './lenses.ts';
import { tellOutcome } from './outcomes.ts';
import { ProposalFiles } from './proposal_files.ts';
import { Restarts } from './restarts.ts';
import { Reviews } from './review.ts';
import { closeTabs, tellSeveral } from './review_tabs.ts';
import { ServerFinder } from './server.ts';
import { Sessions } from './sessions.ts';
import { StatusItem } from './status.ts';
import { Store } from './store.ts';
import { Walkthrough } from './walkthrough.ts';

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
  const corrections = new Corrections(context.workspaceState);
  const isElsewhere = () => chat.focused;
  const reviews = new Reviews({ client: connection, store, files, corrections, log, isElsewhere });
  const restarts = new Restarts({ idle: () => turnHasEnded(store, connection), restart: () => connection.restart() });
  connection.resume = () => sessions.resume();
  context.subscriptions.push(
    log,
    store,
    chosen,
    filesDisposable,
    chat,
    reviews,
    new StatusItem({ client: connection, store }),
    walkthrough(connection, keys),
    tellSeveral(),
    connection.onValue((value) => store.take(value)),
    connection.onValue(tellOutcome),
    sessions.onDidDelete((session) => void reviews.forget(session)),
    connection.onStatus((status) => store.takeStatus(status)),
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (!concernsServer(change)) return;
      connection.hurry();
      void restarts.whenIdle();
    }),
    // The folders of a workspace may come some time after its window.
    vscode.workspace.onDidChangeWorkspaceFolders(() => void connection.start()),
    vscode.workspace.onDidGrantWorkspaceTrust(() => void restarts.whenIdle()),
    ...registerCommands({
      client: connection,
      store,
      sessions,
      chat,
      context: chosen,
      reviews,
      keys,
      finder,
      restarts,
      log,
    }),
  );
  await closeTabs(() => true); // proposals that the editor restored: their server is gone
  void corrections.recover();
  void connection.start();
}

function walkthrough(connection: Client, keys: KeyStore): Walkthrough {
  const done = async () => ({
    server: connection.connection.kind === 'running',
    key: await keys.has(),
    endpoint: baseUrl() !== undefined,
  });
  const changed = [connection.onDidChangeConnection, keys.onDidChange, vscode.workspace.onDidChangeConfiguration];
  return new Walkthrough({ done, changes: changed });
}

export async function deactivate(): Promise<void> {
  await client?.stop();
}
