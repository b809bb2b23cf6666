/**
 * Language: lends the agent the editor's own language features: diagnostics, navigation, rename, and saving.
 *
 * Rules: the answers are LSP's shapes; what no provider answers is `null`, never an error; our own diagnostics are left
 * out; nothing is shown and no document is changed, but for saving.
 */

import * as vscode from 'vscode';
import type { LanguageClient } from 'vscode-languageclient/node';
import { DIAGNOSTICS, NAVIGATE, type Position, SAVE } from './protocol.ts';

const OURS = 'dsh';
const FRESH_MS = 2_000;
const WORTH = ['Error', 'Warning', 'Information', 'Hint'];

export function lendLanguage(client: LanguageClient): vscode.Disposable[] {
  const versions = new DiagnosticTimes();
  return [
    versions,
    client.onRequest(SAVE, (params: { uris: string[]; versions?: Record<string, number> }) => save(params)),
    client.onRequest(DIAGNOSTICS, (params: { uri: string; after?: number }) => versions.diagnostics(client, params)),
    client.onRequest(NAVIGATE, (params: Navigation) => navigate(client, params)),
  ];
}

/** Save documents, but for those that their user has changed since the version that is named. */
async function save({
  uris,
  versions = {},
}: {
  uris: string[];
  versions?: Record<string, number>;
}): Promise<{ saved: string[]; failed: string[] }> {
  const saved: string[] = [];
  const failed: string[] = [];
  for (const uri of uris) {
    const wanted = vscode.Uri.parse(uri).toString();
    const document = vscode.workspace.textDocuments.find((one) => one.uri.toString() === wanted);
    const moved = document?.version !== (versions[uri] ?? document?.version);
    const done = document !== undefined && !moved && (await document.save());
    (done ? saved : failed).push(uri);
  }
  return { saved, failed };
}

/** For which version of a document its diagnostics were last told. */
class DiagnosticTimes implements vscode.Disposable {
  readonly #told = new Map<string, number>();
  readonly #listener = vscode.languages.onDidChangeDiagnostics(({ uris }) => {
    for (const uri of uris) {
      const document = find(uri);
      if (document !== undefined) this.#told.set(uri.toString(), document.version);
    }
  });

  async diagnostics(client: LanguageClient, { uri, after }: { uri: string; after?: number }): Promise<unknown> {
    const target = vscode.Uri.parse(uri);
    await vscode.workspace.openTextDocument(target);
    const fresh =
      after === undefined ? this.#isFresh(target, find(target)?.version ?? 0) : await this.#fresh(target, after);
    const theirs = vscode.languages.getDiagnostics(target).filter(({ source }) => source !== OURS);
    const items = theirs.map((one) => ({
      ...client.code2ProtocolConverter.asDiagnostic(one),
      severity: WORTH.indexOf(vscode.DiagnosticSeverity[one.severity]) + 1,
    }));
    return { items: items, fresh };
  }

  #isFresh(uri: vscode.Uri, version: number): boolean {
    return (this.#told.get(uri.toString()) ?? -1) >= version;
  }

  async #fresh(uri: vscode.Uri, version: number): Promise<boolean> {
    if (this.#isFresh(uri, version)) return true;
    return new Promise((resolve) => {
      const finish = (fresh: boolean) => {
        clearTimeout(timer);
        listener.dispose();
        resolve(fresh);
      };
      const timer = setTimeout(() => finish(false), FRESH_MS);
      const listener = vscode.languages.onDidChangeDiagnostics(() => {
        if (this.#isFresh(uri, version)) finish(true);
      });
    });
  }

  dispose(): void {
    this.#listener.dispose();
  }
}

function find(uri: vscode.Uri): vscode.TextDocument | undefined {
  return vscode.workspace.textDocuments.find((one) => one.uri.toString() === uri.toString());
}

// -- navigation -----------------------------------------------------------------------------------------------------

type Navigation = { kind: string; uri?: string; position?: Position; query?: string; newName?: string };
type Place = vscode.Location | vscode.LocationLink;

const PLACES: Record<string, string> = {
  definition: 'vscode.executeDefinitionProvider',
  references: 'vscode.executeReferenceProvider',
  implementation: 'vscode.executeImplementationProvider',
};

async function navigate(client: LanguageClient, params: Navigation): Promise<unknown> {
  const result = await ask(client, params).catch(() => undefined);
  return result ?? null;
}

async function ask(client: LanguageClient, { kind, uri, position, query, newName }: Navigation): Promise<unknown> {
  const { code2ProtocolConverter: to, protocol2CodeConverter: from } = client;
  if (kind === 'workspaceSymbols') {
    const found = await run<vscode.SymbolInformation[]>('vscode.executeWorkspaceSymbolProvider', query ?? '');
    return found?.map((symbol) => symbolOf(client, symbol));
  }
  if (uri === undefined) return undefined;
  const target = vscode.Uri.parse(uri);
  await vscode.workspace.openTextDocument(target); // providers answer for documents that are open
  if (kind === 'documentSymbols') {
    const found = await run<(vscode.DocumentSymbol | vscode.SymbolInformation)[]>(
      'vscode.executeDocumentSymbolProvider',
      target,
    );
    return found?.map((symbol) =>
      'children' in symbol ? treeOf(client, symbol as vscode.DocumentSymbol) : symbolOf(client, symbol),
    );
  }
  if (position === undefined) return undefined;
  const at = from.asPosition(position);
  const places = PLACES[kind];
  if (places !== undefined) {
    const found = await run<Place[]>(places, target, at);
    return found?.map((place) => locationOf(client, place));
  }
  if (kind === 'hover') {
    const [first, ...more] = (await run<vscode.Hover[]>('vscode.executeHoverProvider', target, at)) ?? [];
    if (first === undefined) return undefined;
    const text = [first, ...more].flatMap((hover) => hover.contents).map(markdownOf);
    return {
      contents: { kind: 'markdown', value: text.join('\n\n') },
      ...(first.range ? { range: to.asRange(first.range) } : {}),
    };
  }
  if (kind === 'rename' && newName !== undefined) {
    const edit = await run<vscode.WorkspaceEdit>('vscode.executeDocumentRenameProvider', target, at, newName);
    const changes = edit?.entries().map(([file, edits]) => [to.asUri(file), edits.map((one) => to.asTextEdit(one))]);
    return changes === undefined ? undefined : { changes: Object.fromEntries(changes) };
  }
  return undefined;
}

async function run<T>(command: string, ...args: unknown[]): Promise<T | undefined> {
  return (await vscode.commands.executeCommand<T | undefined>(command, ...args)) ?? undefined;
}

function locationOf({ code2ProtocolConverter: to }: LanguageClient, place: Place): unknown {
  if ('targetUri' in place) {
    return { uri: to.asUri(place.targetUri), range: to.asRange(place.targetSelectionRange ?? place.targetRange) };
  }
  return { uri: to.asUri(place.uri), range: to.asRange(place.range) };
}

function symbolOf(client: LanguageClient, symbol: vscode.DocumentSymbol | vscode.SymbolInformation): unknown {
  const { name, kind, containerName, location } = symbol as vscode.SymbolInformation;
  return {
    name,
    kind: kind + 1,
    ...(containerName ? { containerName } : {}),
    location: locationOf(client, location),
  };
}

function treeOf(
  client: LanguageClient,
  { name, detail, kind, range, selectionRange, children }: vscode.DocumentSymbol,
): unknown {
  const { code2ProtocolConverter: to } = client;
  const inner = children.map((child) => treeOf(client, child));
  return {
    name,
    detail,
    kind: kind + 1,
    range: to.asRange(range),
    selectionRange: to.asRange(selectionRange),
    children: inner,
  };
}

function markdownOf(content: vscode.MarkdownString | vscode.MarkedString): string {
  if (typeof content === 'string') return content;
  return 'language' in content ? `\`\`\`${content.language}\n${content.value}\n\`\`\`` : content.value;
}
