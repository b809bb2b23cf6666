/** Outcomes: tells how commands ended whose answer comes as an event. */

import * as vscode from 'vscode';
import { unlinked } from './errors.ts';
import type { StreamValue } from './protocol.ts';

type Compacted = { ok: boolean; before: number; after: number; message?: string };

export function tellOutcome({ type, data }: StreamValue): void {
  if (type !== 'compact/done') return;
  const { ok, before, after, message } = data as Compacted;
  if (!ok)
    void vscode.window.showWarningMessage(
      `DSH: the history was not made shorter: ${unlinked(message ?? 'no reason was given')}`,
    );
  else
    void vscode.window.showInformationMessage(
      `DSH: the history is shorter: ${thousands(before)} tokens are ${thousands(after)} now.`,
    );
}

function thousands(tokens: number): string {
  return tokens < 1_000 ? String(tokens) : `${(tokens / 1_000).toFixed(1)}k`;
}
