/** Fixes: *Fix with DSH* on every problem, and what stands above edits in their documents. */

import * as vscode from 'vscode';
import { fileChip } from './context.ts';

const OURS = 'dsh';

export class FixProvider implements vscode.CodeActionProvider {
  static readonly metadata: vscode.CodeActionProviderMetadata = {
    providedCodeActionKinds: [vscode.CodeActionKind.QuickFix],
  };

  provideCodeActions(
    document: vscode.TextDocument,
    _range: vscode.Range,
    context: vscode.CodeActionContext,
  ): vscode.CodeAction[] {
    const problems = context.diagnostics.filter(({ source }) => source !== OURS);
    return problems.map((problem) => {
      const action = new vscode.CodeAction('Fix with DSH', vscode.CodeActionKind.QuickFix);
      const where = `${fileChip(document.uri).detail}, line ${problem.range.start.line + 1}`;
      action.diagnostics = [problem];
      action.command = {
        title: action.title,
        command: 'dsh.ui.fix',
        arguments: [document.uri, problem.range, `${problem.message} (${where})`],
      };
      return action;
    });
  }
}

const REVIEWED = new Set(['DSH: Accept', 'DSH: Reject']);

/**
 * The server's lenses as this client shows them: an edit that waits is reviewed, since here it can be seen first, and
 * not at all where its review is open; what was applied at once can be kept or undone where it stands.
 */
export function shownLenses(lenses: vscode.CodeLens[], uri: string, inReview: boolean): vscode.CodeLens[] {
  const lines = new Set<number>();
  return lenses.flatMap((lens) => {
    const { command, range } = lens;
    if (command === undefined) return [lens];
    if (!REVIEWED.has(command.title)) {
      const words = command.title.replace(/^DSH: /, '');
      const icon = words === 'Keep' ? 'check' : 'discard';
      return [new vscode.CodeLens(range, { ...command, title: `$(${icon})\u00a0${words}` })];
    }
    if (inReview || lines.has(range.start.line)) return [];
    lines.add(range.start.line);
    return [
      new vscode.CodeLens(range, {
        title: '$(diff)\u00a0Review the edit',
        command: 'dsh.ui.reviewEdits',
        arguments: [uri],
      }),
    ];
  });
}
