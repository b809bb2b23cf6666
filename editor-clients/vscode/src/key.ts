/**
 * Key: the provider's API key, in the editor's secret storage, handed to the server by its environment alone.
 *
 * Rules: it is in no setting, no log and no message; one key for each provider, or for each variable that the user has named.
 */

import * as vscode from 'vscode';
import { keyOwner, keyVariable, readVariable } from './config.ts';

export class KeyStore {
  readonly #secrets: vscode.SecretStorage;

  constructor(secrets: vscode.SecretStorage) {
    this.#secrets = secrets;
  }

  /** Tells that a key was stored or forgotten, in any window. */
  get onDidChange(): vscode.Event<unknown> {
    return this.#secrets.onDidChange;
  }

  /** The environment that the server gets besides ours. */
  async env(): Promise<Record<string, string>> {
    const key = await this.#secrets.get(slot());
    return key === undefined ? {} : { [keyVariable()]: key };
  }

  /** Whether the server finds a key, here or in the variable of the editor's environment that it reads. */
  async has(): Promise<boolean> {
    if ((await this.#secrets.get(slot())) !== undefined) return true;
    const variable = readVariable();
    return variable !== undefined && (process.env[variable] ?? '') !== '';
  }

  /** Ask for a provider's key; false if the user changed their mind. An empty one forgets what is stored. */
  async ask(owner = keyOwner()): Promise<boolean> {
    const key = await vscode.window.showInputBox({
      title: `DSH: API key of ${owner}`,
      prompt: 'Kept in the secret storage, and handed to the server by its environment. Empty: forget the key.',
      password: true,
      ignoreFocusOut: true,
    });
    if (key === undefined) return false;
    if (key.trim() === '') await this.#secrets.delete(slot(owner));
    else await this.#secrets.store(slot(owner), key.trim());
    return true;
  }
}

function slot(owner = keyOwner()): string {
  return `key:${owner}`;
}
