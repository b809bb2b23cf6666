/**
 * Client: one connection to the server: starts it, speaks with it, notices its death and starts it again.
 *
 * Rules: the event stream comes by a token of this connection, handed to whoever listens before the server can send; a
 * server that dies is started again, but not for ever; a restart that the user did not ask for never falls into a turn;
 * without a folder no server runs, since it would take the folder that the editor itself runs in for the user's.
 */

import { randomUUID } from 'node:crypto';
import * as vscode from 'vscode';
import {
  CancellationToken,
  CloseAction,
  ErrorAction,
  ExecuteCommandRequest,
  LanguageClient,
  type LanguageClientOptions,
  ProgressType,
  type ServerOptions,
  type StaticFeature,
} from 'vscode-languageclient/node';
import { serverOptions } from './config.ts';
import { messageOf, NEEDS_FOLDER, withoutIcons } from './errors.ts';
import { whyNot } from './guard.ts';
import type { KeyStore } from './key.ts';
import { type CommandName, type Commands, STATUS, type Status, type StreamValue, VERSION } from './protocol.ts';
import type { ServerFinder } from './server.ts';

const RESTARTS = 3;
const RESTARTS_WITHIN_MS = 180_000;
const RESTART_AFTER_MS = 800;
const START_MS = 60_000; // what takes longer to answer is no server of ours
const HURRIED_MS = 5_000;

export type Connection =
  | { kind: 'starting' }
  | { kind: 'running' }
  | { kind: 'missing' }
  | { kind: 'noFolder' }
  | { kind: 'stopped'; reason: string; restarts: boolean };

/** What announces this client's own abilities in `initialize`. */
const OFFERS: StaticFeature = {
  fillClientCapabilities: (capabilities) => {
    const offers = {
      version: VERSION,
      review: true,
      approve: true,
      ask: true,
      diagnostics: true,
      navigate: true,
      save: true,
    };
    capabilities.experimental = { ...(capabilities.experimental as object | undefined), dsh: offers };
  },
  initialize: () => {},
  getState: () => ({ kind: 'static' }),
  clear: () => {},
};

type Register = (client: LanguageClient) => vscode.Disposable[];
type Lenses = (lenses: vscode.CodeLens[], uri: string) => vscode.CodeLens[];

export class Client implements vscode.Disposable {
  connection: Connection = { kind: 'starting' };
  readonly #changed = new vscode.EventEmitter<Connection>();
  readonly #values = new vscode.EventEmitter<StreamValue>();
  readonly #statuses = new vscode.EventEmitter<Status>();
  readonly onDidChangeConnection = this.#changed.event;
  readonly onValue = this.#values.event;
  readonly onStatus = this.#statuses.event;
  /** Runs after each start, before the connection counts as running. */
  resume: () => Promise<void> = async () => {};

  readonly #context: vscode.ExtensionContext;
  readonly #log: vscode.LogOutputChannel;
  readonly #keys: KeyStore;
  readonly #finder: ServerFinder;
  readonly #requests: Register;
  readonly #lenses: Lenses;
  #client: LanguageClient | undefined;
  #disposables: vscode.Disposable[] = [];
  #starting: Promise<void> | undefined;
  /** Ends the start that is on its way. */
  #giveUp: (why: Error) => void = () => {};
  #deaths: number[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(parts: {
    context: vscode.ExtensionContext;
    log: vscode.LogOutputChannel;
    keys: KeyStore;
    finder: ServerFinder;
    requests: Register;
    lenses: Lenses;
  }) {
    this.#context = parts.context;
    this.#log = parts.log;
    this.#keys = parts.keys;
    this.#finder = parts.finder;
    this.#requests = parts.requests;
    this.#lenses = parts.lenses;
  }

  /** Start the server unless it runs; a failure is told by the connection's state. */
  start(): Promise<void> {
    this.#starting ??= this.#start().finally(() => {
      this.#starting = undefined;
    });
    return this.#starting;
  }

  async #start(): Promise<void> {
    clearTimeout(this.#timer);
    if (this.#client !== undefined) return;
    const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
    if (folder === undefined) {
      this.#set({ kind: 'noFolder' });
      return;
    }
    this.#set({ kind: 'starting' });
    let client: LanguageClient | undefined;
    try {
      client = await this.#found(folder);
      if (client === undefined) {
        this.#set({ kind: 'missing' });
        return;
      }
      this.#client = client;
      await this.#begin(client);
      await this.resume();
      this.#set({ kind: 'running' });
    } catch (error) {
      if (this.#client === client) await this.#drop();
      this.#set({ kind: 'stopped', reason: messageOf(error), restarts: false });
    }
  }

  /**
   * Start a client's server.
   *
   * Throws in the user's words if it does not start, or does not answer.
   */
  async #begin(client: LanguageClient): Promise<void> {
    const givenUp = new Promise<never>((_, reject) => {
      this.#giveUp = reject;
    });
    const timer = setTimeout(() => this.#giveUp(new Error('it does not answer')), START_MS);
    try {
      await Promise.race([client.start(), givenUp]);
    } catch (error) {
      client.serverProcess?.kill(); // the library stops none that has not started
      throw new Error(`the server does not start: ${messageOf(error)}`);
    } finally {
      clearTimeout(timer);
    }
  }

  /** A client for the server that is found, not started yet; nothing if there is none. */
  async #found(folder: string): Promise<LanguageClient | undefined> {
    const launch = await this.#finder.find();
    if (launch === undefined) return undefined;
    this.#log.info(`the server is taken from ${launch.from}: ${launch.command} ${launch.args.join(' ')}`);
    const key = await this.#keys.env();
    const env = { ...process.env, ...key };
    const executable = { command: launch.command, args: launch.args, options: { env, cwd: folder } };
    return this.#build({ run: executable, debug: executable }, Object.keys(key).length > 0);
  }

  #build(server: ServerOptions, keyIsStored: boolean): LanguageClient {
    const token = `dsh-${randomUUID()}`;
    const properties = this.#context.extension.packageJSON.contributes.configuration[0].properties as Record<
      string,
      unknown
    >;
    const options: LanguageClientOptions = {
      documentSelector: [{ scheme: 'file' }],
      outputChannel: this.#log,
      initializationOptions: {
        ...serverOptions(properties, keyIsStored),
        eventToken: token,
        workspaceTrusted: vscode.workspace.isTrusted,
      },
      errorHandler: {
        error: () => ({ action: ErrorAction.Continue, handled: true }),
        closed: () => {
          this.#died(client);
          return { action: CloseAction.DoNotRestart, handled: true };
        },
      },
      middleware: {
        // What a code action of the server's asks goes through the chat, where its answer is seen.
        executeCommand: (command, args, next) =>
          command === 'dsh.followup'
            ? vscode.commands.executeCommand('dsh.ui.followup', ...args)
            : next(command, args),
        handleWorkDoneProgress: (token, params, next) => {
          if (params.message !== undefined) params.message = withoutIcons(params.message); // `next` takes no other
          next(token, params);
        },
        provideCodeLenses: async (document, cancelled, next) =>
          this.#lenses((await next(document, cancelled)) ?? [], document.uri.toString()),
        workspace: {
          handleApplyEdit: (params, next) => whyNot(params.edit) ?? next(params, CancellationToken.None),
        },
      },
      initializationFailedHandler: () => false,
    };
    const client = new LanguageClient('dsh', 'DSH', server, options);
    client.registerFeature(OFFERS);
    this.#disposables = [
      client.onProgress(new ProgressType<StreamValue>(), token, (value) => this.#values.fire(value)),
      client.onNotification(STATUS, (status: Status) => this.#statuses.fire(status)),
      ...this.#requests(client),
    ];
    return client;
  }

  /** Start the server again; the sessions live on in their logs. */
  async restart(): Promise<void> {
    this.#deaths = [];
    await this.stop();
    await this.start();
  }

  /** Give a start that is on its way a moment more and no longer: something better waits for its end. */
  hurry(): void {
    const starting = this.#starting;
    if (starting === undefined) return;
    setTimeout(() => {
      if (this.#starting === starting) this.#giveUp(new Error('it does not answer'));
    }, HURRIED_MS);
  }

  async stop(): Promise<void> {
    clearTimeout(this.#timer);
    this.hurry();
    await this.#starting?.catch(() => {});
    await this.#drop();
  }

  async #drop(): Promise<void> {
    const client = this.#client;
    this.#client = undefined;
    for (const disposable of this.#disposables.splice(0)) disposable.dispose();
    await client?.dispose().catch((error: unknown) => this.#log.debug(`stopping: ${messageOf(error)}`));
  }

  #died(client: LanguageClient): void {
    if (client !== this.#client) return; // it was stopped by us
    const now = Date.now();
    this.#deaths = [...this.#deaths.filter((death) => now - death < RESTARTS_WITHIN_MS), now];
    const restarts = this.#deaths.length <= RESTARTS;
    this.#log.warn(
      `the server has stopped; ${restarts ? 'it is started again' : 'it stopped too often to be started again'}`,
    );
    this.#set({ kind: 'stopped', reason: 'The server has stopped unexpectedly.', restarts });
    void this.#drop().then(() => {
      if (restarts) this.#timer = setTimeout(() => void this.start(), RESTART_AFTER_MS);
    });
  }

  #set(connection: Connection): void {
    this.connection = connection;
    this.#changed.fire(connection);
  }

  /**
   * Run a command of the server.
   *
   * Throws what the server answers; `errorCode` reads its code.
   */
  async run<K extends CommandName>(
    command: K,
    argument: Commands[K][0],
    token?: vscode.CancellationToken,
  ): Promise<Commands[K][1]> {
    if (this.#client === undefined) await this.start();
    const client = this.#client;
    if (client === undefined) throw new Error(this.#whyNot());
    const params = { command, arguments: [argument] };
    return (await client.sendRequest(ExecuteCommandRequest.type, params, token)) as Commands[K][1];
  }

  #whyNot(): string {
    return this.connection.kind === 'noFolder' ? NEEDS_FOLDER : 'no server runs: install one, or see the log';
  }

  dispose(): Promise<void> {
    return this.stop();
  }
}
