/** Review lenses: the words above each place of a proposal, which decide it. */

import * as vscode from 'vscode';
import type { FileUnderReview } from './file_under_review.ts';

export function lensesOf(under: FileUnderReview, document: vscode.TextDocument): vscode.CodeLens[] {
  const right = under.right.toString();
  const changes = under.proposal.changes();
  const hunks = changes.filter(({ id }) => id !== undefined);
  return changes.flatMap((change) => {
    const line = Math.min(change.right[0], document.lineCount - 1);
    const range = new vscode.Range(line, 0, line, 0);
    const lens = (title: string, command: string, ...args: unknown[]) =>
      new vscode.CodeLens(range, { title, command, arguments: args });
    if (change.id === undefined) {
      return [
        lens('$(check)\u00a0Keep my edit', 'dsh.ui.landOwn', right, change),
        lens('$(discard)\u00a0Undo my edit', 'dsh.ui.undoOwn', right, change),
      ];
    }
    const place = hunks.length > 1 ? ` ${hunks.indexOf(change) + 1} of ${hunks.length}` : '';
    return [
      lens(`$(check)\u00a0Accept${place}`, 'dsh.ui.acceptHunk', change.id),
      lens('$(close)\u00a0Reject', 'dsh.ui.rejectHunk', change.id),
      lens('$(comment)\u00a0Reject with a comment', 'dsh.ui.rejectHunkWithComment', change.id),
    ];
  });
}
