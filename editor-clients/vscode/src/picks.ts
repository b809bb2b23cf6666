/** Picks: lets the user choose a mode, a model or a turn. */

import * as vscode from 'vscode';
import type { Client } from './client.ts';
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

const LIST_MS = 10_000;

/** The list comes as an event when the endpoint has answered; a name can be typed before that, or without it. */
export async function pickModel(client: Client, store: Store): Promise<void> {
  const provider = store.view.provider ?? store.status?.model.provider ?? 'deepseek';
  const picker = vscode.window.createQuickPick<ModelRow>();
  picker.title = 'DSH: Model';
  picker.placeholder = 'Choose a model, or type its name';
  picker.busy = true;
  const listener = client.onValue(({ type, data }) => {
    if (type !== 'model/list') return;
    picker.items = modelsOf(data as Listing);
    picker.busy = false;
  });
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
      const typed = picker.value.trim();
      resolve(
        row !== undefined
          ? { provider: row.provider, name: row.label }
          : typed
            ? { provider, name: typed }
            : undefined,
      );
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

type ModelRow = vscode.QuickPickItem & { provider: string };
type Listing = {
  models: { provider: string; name: string; contextWindow?: number }[];
  failed: { provider: string; message: string }[];
};

/** The models, each provider's together; a provider that did not answer says why, and cannot be chosen. */
function modelsOf({ models, failed }: Listing): ModelRow[] {
  const rows = models.map(({ provider, name, contextWindow }) => ({
    label: name,
    description:
      contextWindow === undefined ? provider : `${provider}, ${Math.round(contextWindow / 1000)}k tokens of context`,
    provider,
  }));
  const silent = failed.map(({ provider, message }) => ({
    label: `${provider}: ${message}`,
    kind: vscode.QuickPickItemKind.Separator,
    provider,
  }));
  return [...rows, ...silent];
}

/** A turn with edits that landed, the newest first. */
export async function pickTurn(view: SessionView): Promise<number | undefined> {
  const rows = view.turns
    .filter((turn) => turn.items.some((item) => item.kind === 'review'))
    .map((turn) => {
      const asked = turn.items.find((item) => item.kind === 'user');
      const files = turn.items.flatMap((item) => (item.kind === 'review' ? item.files : []));
      const names = [...new Set(files.map(({ uri }) => vscode.workspace.asRelativePath(vscode.Uri.parse(uri))))];
      return {
        label: `Turn ${turn.turn}`,
        description: asked?.kind === 'user' ? asked.text : '',
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
