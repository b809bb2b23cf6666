// A plain LSP client, as any extension author would write one. What to start is read from beside the workspace.
import * as fs from 'node:fs';
import * as path from 'node:path';
import * as vscode from 'vscode';
import { LanguageClient, type ServerOptions } from 'vscode-languageclient/node';

type Launch = { command: string; args: string[]; env: Record<string, string>; initializationOptions: unknown };

let client: LanguageClient | undefined;

export async function activate(): Promise<void> {
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
  const file = path.join(folder ?? '/', '..', 'stock.json');
  if (!fs.existsSync(file)) return;
  const launch = JSON.parse(fs.readFileSync(file, 'utf8')) as Launch;
  const run = { command: launch.command, args: launch.args, options: { cwd: folder, env: launch.env } };
  const server: ServerOptions = { run, debug: run };
  client = new LanguageClient('stock', 'Stock', server, {
    documentSelector: [{ scheme: 'file', language: 'python' }],
    initializationOptions: launch.initializationOptions,
  });
  await client.start();
}

export async function deactivate(): Promise<void> {
  await client?.stop();
}
