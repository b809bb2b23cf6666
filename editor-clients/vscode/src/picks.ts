/** Picks: lets the user choose a mode, a model or a turn. */

import * as vscode from 'vscode';
import type { Client } from './client.ts';
import { PROVIDERS } from './config.ts';
import { withoutIcons } from './errors.ts';
import type { Mode } from './protocol.ts';
import type { Store } from './store.ts';
import type { SessionView } from './view.ts';

const MODES: { mode: Mode; label: string; detail: string }[] = [
  { mode: 'ask', label: '$(shield) Ask', detail: 'Edits are reviewed, and commands need your permission' },
  {
    mode: 'auto-edit',
    label: '$(edit) Auto-edit',
    detail: 'Edits are applied at once and can be undone; commands need your permission',
  },
  { mode: 'plan', label: '$(checklist) Plan', detail: 'Reads and plans; changes nothing' },
  { mode: 'read-only', label: '$(lock) Read-only', detail: 'Reads and explains; changes nothing' },
];

export async function pickMode(client: Client, store: Store): Promise<void> {
  const current = store.view.mode ?? store.status?.mode;
  const rows = MODES.map((row) => ({ ...row, ...(row.mode === current ? { description: 'current' } : {}) }));
  const chosen = await vscode.window.showQuickPick(rows, {
    title: 'DSH: Mode',
    placeHolder: 'What may the agent do?',
  });
  if (chosen !== undefined) await client.run('dsh.mode.set', { ...of(store), mode: chosen.mode });
}

/** Whose key is set; the demo has none, so that the choice takes its place. */
export function pickProvider(): Thenable<string | undefined> {
  return vscode.window.showQuickPick(PROVIDERS, {
    title: 'DSH: API Key',
    placeHolder: 'The demo needs no key. Whose key is it? That provider takes the place of the demo',
  });
}

const LIST_MS = 10_000;

/** The list comes as an event when the endpoint has answered; a name can be typed before that, or without it. */
export async function pickModel(client: Client, store: Store): Promise<void> {
  const provider = store.view.provider ?? store.status?.model.provider ?? 'deepseek';
  const picker = vscode.window.createQuickPick<ModelRow>();
  picker.title = 'DSH: Model';
  picker.placeholder = 'Choose a model, or type its name';
  picker.busy = true;
  let listed: ModelRow[] = [];
  const draw = () => {
    picker.items = [...listed, ...typedRow(picker.value.trim(), provider, listed)];
  };
  const current = { provider, name: store.view.model ?? store.status?.model.name };
  const listener = client.onValue(({ type, data }) => {
    if (type !== 'model/list') return;
    listed = modelsOf(data as Listing, current);
    picker.busy = false;
    draw();
  });
  picker.onDidChangeValue(draw);
  const timer = setTimeout(() => {
    picker.busy = false;
  }, LIST_MS);
  void client.run('dsh.model.list', {}).then(
    () => {},
    () => {
      picker.busy = false;
      picker.placeholder = 'The list could not be asked for; type the name of a model';
    },
  );
  const chosen = await new Promise<{ provider: string; name: string } | undefined>((resolve) => {
    picker.onDidAccept(() => {
      const [row] = picker.selectedItems;
      resolve(row && { provider: row.provider, name: row.name });
      picker.hide();
    });
    picker.onDidHide(() => resolve(undefined));
    picker.show();
  });
  clearTimeout(timer);
  listener.dispose();
  picker.dispose();
  if (chosen !== undefined) await client.run('dsh.model.set', { ...of(store), ...chosen });
}

export type ModelRow = vscode.QuickPickItem & { provider: string; name: string };
type Listing = {
  models: { provider: string; name: string; contextWindow?: number }[];
  failed: { provider: string; message: string }[];
};

/** What is typed can be chosen as it is, although models contain it: the list may lack it. */
export function typedRow(typed: string, provider: string, listed: readonly ModelRow[]): ModelRow[] {
  if (typed === '' || listed.some(({ name }) => name === typed)) return [];
  return [{ label: `Use "${typed}"`, description: provider, provider, name: typed, alwaysShow: true }];
}

/** The models, each provider's together; a provider that did not answer says why, and cannot be chosen. */
export function modelsOf(
  { models, failed }: Listing,
  current: { provider: string; name: string | undefined },
): ModelRow[] {
  const rows = models.map(({ provider, name, contextWindow }) => {
    const isCurrent = provider === current.provider && name === current.name;
    const window = contextWindow && `${Math.round(contextWindow / 1000)}k tokens of context`;
    return {
      label: `${isCurrent ? '$(check) ' : ''}${name}`,
      description: [provider, window, isCurrent && 'current'].filter(Boolean).join(', '),
      provider,
      name,
    };
  });
  const silent = failed.map(({ provider, message }) => ({
    label: `${provider}: ${message}`,
    kind: vscode.QuickPickItemKind.Separator,
    provider,
    name: '',
  }));
  return [...rows, ...silent];
}

/** A turn with edits that landed, the newest first. */
export async function pickTurn(view: SessionView): Promise<number | undefined> {
  const rows = view.turns
    .map((turn) => ({ turn, files: turn.items.flatMap((item) => (item.kind === 'review' ? item.files : [])) }))
    .map(({ turn, files }) => ({ turn, files: files.filter(({ hunks }) => hunks.some(({ landed }) => landed)) }))
    .filter(({ files }) => files.length > 0)
    .map(({ turn, files }) => {
      const asked = turn.items.find((item) => item.kind === 'user');
      const names = [...new Set(files.map(({ uri }) => vscode.workspace.asRelativePath(vscode.Uri.parse(uri))))];
      return {
        label: `Turn ${turn.turn}`,
        description: asked?.kind === 'user' ? withoutIcons(asked.text) : '',
        detail: names.join(', '),
        turn: turn.turn,
      };
    })
    .reverse();
  if (rows.length === 0) {
    void vscode.window.showInformationMessage('DSH: no turn of this session has edited anything.');
    return undefined;
  }
  return (
    await vscode.window.showQuickPick(rows, { title: 'DSH: Rewind Turn', placeHolder: 'Whose edits are taken back?' })
  )?.turn;
}

function of(store: Store): { session?: string } {
  return store.session === undefined ? {} : { session: store.session };
}
