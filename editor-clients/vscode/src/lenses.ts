/** Lenses: what stands above edits in their documents. */

import * as vscode from 'vscode';

const WAITS = /^DSH: (?:Accept|Reject)\b( all)?/;

/**
 * The server's lenses as this client shows them: an edit that waits is reviewed, since here it can be seen first, and
 * not at all where its review is open; what was applied at once can be kept or undone where it stands.
 */
export function shownLenses(lenses: vscode.CodeLens[], uri: string, inReview: boolean): vscode.CodeLens[] {
  const lines = new Set<number>();
  return lenses.flatMap((lens) => {
    const { command, range } = lens;
    if (command === undefined) return [lens];
    const waits = WAITS.exec(command.title);
    if (waits === null) {
      const words = command.title.replace(/^DSH: /, '');
      const icon = words.startsWith('Keep') ? 'check' : 'discard';
      return [new vscode.CodeLens(range, { ...command, title: `$(${icon})\u00a0${words}` })];
    }
    if (inReview || waits[1] !== undefined || lines.has(range.start.line)) return [];
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
