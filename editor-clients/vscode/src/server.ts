/**
 * Server: finds the language server, and installs the one that this extension brings if the user wants it.
 *
 * Rules: looked for in this order: the configured command, the extension's own install, the selected interpreter, the
 * search path. In a workspace that is not trusted nothing is run that the workspace chooses. Nothing is installed
 * without consent, and nothing but into the extension's own storage.
 */

import { execFile } from 'node:child_process';
import { access, mkdir, readdir, rename, rm } from 'node:fs/promises';
import * as path from 'node:path';
import { promisify } from 'node:util';
import * as vscode from 'vscode';
import { configuredServer } from './config.ts';

const run = promisify(execFile);
const PROBE_MS = 10_000;
const INSTALL_MS = 600_000;
const OLDEST = [3, 11] as const;
const WINDOWS = process.platform === 'win32';

export type Launch = { command: string; args: string[]; from: string };

export class ServerFinder {
  readonly #home: string;
  readonly #wheels: string;
  readonly #log: vscode.LogOutputChannel;

  constructor(context: vscode.ExtensionContext, log: vscode.LogOutputChannel) {
    this.#home = path.join(context.globalStorageUri.fsPath, 'server');
    this.#wheels = path.join(context.extensionPath, 'bundled');
    this.#log = log;
  }

  /** How to start the server, or undefined if there is none. */
  async find(): Promise<Launch | undefined> {
    const configured = configuredServer();
    if (configured !== undefined) {
      const [command = '', ...args] = configured;
      return { command, args, from: 'the setting dsh.client.server' };
    }
    for (const [python, from] of await this.#candidates()) {
      if (await this.#hasServer(python)) return { command: python, args: ['-m', 'dsh_lsp', 'serve'], from };
    }
    const onPath = await this.#onPath();
    return onPath === undefined ? undefined : { command: onPath, args: ['serve'], from: 'the search path' };
  }

  async #candidates(): Promise<[python: string, from: string][]> {
    const own: [string, string][] = [[interpreterIn(this.#home), "the extension's own install"]];
    const selected = await this.#selected();
    return selected === undefined ? own : [...own, [selected, 'the selected interpreter']];
  }

  /** The interpreter that the user selected; an extension that fails to say which one leaves the others. */
  async #selected(): Promise<string | undefined> {
    if (!vscode.workspace.isTrusted) return undefined;
    return selectedInterpreter().catch((error: unknown) => {
      this.#log.warn(`the selected interpreter is not known: ${String(error)}`);
      return undefined;
    });
  }

  async #hasServer(python: string): Promise<boolean> {
    try {
      if (path.isAbsolute(python)) await access(python);
      await run(python, ['-c', 'import dsh_lsp'], { timeout: PROBE_MS, cwd: this.#wheels });
      return true;
    } catch (error) {
      this.#log.debug(`no server in ${python}: ${String(error)}`);
      return false;
    }
  }

  async #onPath(): Promise<string | undefined> {
    const name = WINDOWS ? 'dsh-lsp.exe' : 'dsh-lsp';
    for (const folder of (process.env.PATH ?? '').split(path.delimiter).filter(path.isAbsolute)) {
      const file = path.join(folder, name);
      if (await exists(file)) return file;
    }
    return undefined;
  }

  /** Install the server that this extension brings, with the user's consent; false if they do not give it. */
  async install(): Promise<boolean> {
    const wheel = await this.#wheel();
    const python = await this.#python();
    if (wheel === undefined || python === undefined) {
      const missing =
        wheel === undefined ? 'this build of the extension brings no server' : 'no Python 3.11 or newer was found';
      void vscode.window.showErrorMessage(
        `DSH: ${missing}. Install it yourself and select that interpreter, or set dsh.client.server.`,
      );
      return false;
    }
    const detail = `With ${python}, into ${this.#home}. Its dependencies come from your Python package index.`;
    const answer = await vscode.window.showInformationMessage(
      'Install the DSH server?',
      { modal: true, detail },
      'Install',
    );
    if (answer !== 'Install') return false;
    const options = { location: vscode.ProgressLocation.Notification, title: 'DSH: installing the server' };
    return vscode.window.withProgress(options, async (progress) => this.#installInto(python, wheel, progress));
  }

  async #installInto(
    python: string,
    wheel: string,
    progress: vscode.Progress<{ message?: string }>,
  ): Promise<boolean> {
    const partial = `${this.#home}.partial`;
    try {
      await rm(partial, { recursive: true, force: true });
      await mkdir(path.dirname(partial), { recursive: true });
      progress.report({ message: 'making an environment' });
      await run(python, ['-m', 'venv', partial], { timeout: INSTALL_MS });
      progress.report({ message: 'installing' });
      const pip = ['-m', 'pip', 'install', '--disable-pip-version-check', '--no-input', wheel];
      await run(interpreterIn(partial), pip, { timeout: INSTALL_MS, maxBuffer: 2 ** 24 });
      await rm(this.#home, { recursive: true, force: true });
      await rename(partial, this.#home);
      return true;
    } catch (error) {
      this.#log.error(`installing the server: ${String(error)}`);
      void vscode.window
        .showErrorMessage('DSH: the server could not be installed; the log says why.', 'Show Log')
        .then((choice) => {
          if (choice !== undefined) this.#log.show();
        });
      return false;
    }
  }

  async #wheel(): Promise<string | undefined> {
    const names = await readdir(this.#wheels).catch(() => []);
    const wheel = names.find((name) => name.endsWith('.whl'));
    return wheel === undefined ? undefined : path.join(this.#wheels, wheel);
  }

  async #python(): Promise<string | undefined> {
    const selected = await this.#selected();
    const names = WINDOWS ? ['py', 'python'] : ['python3', 'python3.13', 'python3.12', 'python3.11', 'python'];
    for (const python of selected === undefined ? names : [selected, ...names]) {
      const found = await run(python, ['-c', 'import sys; print(*sys.version_info[:2])'], {
        timeout: PROBE_MS,
      }).catch(() => undefined);
      const [major = 0, minor = 0] = (found?.stdout ?? '').trim().split(' ').map(Number);
      if (major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1])) return python;
    }
    return undefined;
  }
}

function interpreterIn(environment: string): string {
  return WINDOWS ? path.join(environment, 'Scripts', 'python.exe') : path.join(environment, 'bin', 'python');
}

/** The interpreter that the user selected with the Python extension, if that is there. */
async function selectedInterpreter(): Promise<string | undefined> {
  type PythonApi = { environments?: { getActiveEnvironmentPath(resource?: vscode.Uri): { path: string } } };
  const extension = vscode.extensions.getExtension<PythonApi>('ms-python.python');
  if (extension !== undefined) {
    const api = await extension.activate();
    const chosen = api.environments?.getActiveEnvironmentPath(vscode.workspace.workspaceFolders?.[0]?.uri).path;
    if (chosen !== undefined && path.isAbsolute(chosen)) return chosen;
  }
  const configured = vscode.workspace.getConfiguration('python').get<string>('defaultInterpreterPath');
  return configured !== undefined && path.isAbsolute(configured) ? configured : undefined;
}

async function exists(file: string): Promise<boolean> {
  return access(file).then(
    () => true,
    () => false,
  );
}
