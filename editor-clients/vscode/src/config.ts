/**
 * Config: what the user configured, as the server takes it in `initializationOptions`.
 *
 * Rules: no setting is named here: the manifest has them all, generated from the server's models. What raises rights
 * has `scope: machine` there, so that the editor itself takes no workspace's word for it. `client.*` stays here.
 */

import * as vscode from 'vscode';
import type { Json, JsonObject } from './protocol.ts';

const SECTION = 'dsh';

/** The settings that the user has set, nested as the server's model is; defaults are the server's own. */
export function serverOptions(properties: Record<string, unknown>, keyIsStored: boolean): JsonObject {
  const options: JsonObject = {};
  const configuration = vscode.workspace.getConfiguration();
  for (const key of Object.keys(properties)) {
    const value = configuration.get<Json>(key);
    if (key.startsWith(`${SECTION}.client.`) || value === undefined || value === null) continue;
    const set = configuration.inspect(key);
    if (
      set?.globalValue === undefined &&
      set?.workspaceValue === undefined &&
      set?.workspaceFolderValue === undefined
    ) {
      continue;
    }
    place(options, key.split('.').slice(1), value);
  }
  if (keyIsStored) place(options, ['model', 'apiKeyEnv'], keyVariable());
  return options;
}

function place(target: JsonObject, path: string[], value: Json): void {
  const [head, ...rest] = path;
  if (head === undefined) return;
  if (rest.length === 0) {
    target[head] = value;
    return;
  }
  const inner = (target[head] ?? {}) as JsonObject;
  target[head] = inner;
  place(inner, rest, value);
}

/**
 * The command line that starts the server, if the user has configured one.
 *
 * Throws if the setting is something else: the editor marks it where it is written, and hands it over as it is.
 */
export function configuredServer(): string[] | undefined {
  const command = vscode.workspace.getConfiguration(SECTION).get<unknown>('client.server') ?? [];
  const isCommand = Array.isArray(command) && command.every((word) => typeof word === 'string') && command[0] !== '';
  if (!isCommand)
    throw new Error('the setting dsh.client.server must be a list: a program and its arguments, each in quotes');
  return command.length > 0 ? command : undefined;
}

/** The environment variable that a stored key is handed over in; the server is told its name. */
export function keyVariable(): string {
  return vscode.workspace.getConfiguration(SECTION).get<string | null>('model.apiKeyEnv') || 'DSH_API_KEY';
}

/** The variables that providers are known by, which the server reads by itself. */
const VARIABLES: Record<string, string> = {
  deepseek: 'DEEPSEEK_API_KEY',
  anthropic: 'ANTHROPIC_API_KEY',
  openai_compatible: 'OPENAI_API_KEY',
};

/** The environment variable that the server reads the key from, if none is stored. */
export function readVariable(): string | undefined {
  const configuration = vscode.workspace.getConfiguration(SECTION);
  const named = configuration.get<string | null>('model.apiKeyEnv');
  return named || VARIABLES[configuration.get<string>('model.provider') ?? ''];
}

export const DEMO = 'demo';

/** The providers that have a key. */
export const PROVIDERS = Object.keys(VARIABLES);

/** Whose key is meant: that of a variable that the user has named, else the provider's. */
export function keyOwner(): string {
  const configuration = vscode.workspace.getConfiguration(SECTION);
  const named = configuration.get<string | null>('model.apiKeyEnv');
  return named || (configuration.get<string>('model.provider') ?? '');
}

/** The endpoint that the user has named, if they have. */
export function baseUrl(): string | undefined {
  return vscode.workspace.getConfiguration(SECTION).get<string | null>('model.baseUrl') || undefined;
}

/** Whether a change of the configuration concerns the server. */
export function concernsServer(change: vscode.ConfigurationChangeEvent): boolean {
  return change.affectsConfiguration(SECTION);
}
