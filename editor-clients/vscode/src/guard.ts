/**
 * Guard: refuses edits that were made for another text than a document shows.
 *
 * Rules: the language client compares versions where an edit names one; an edit of a file that was closed names none,
 * and whoever has opened it and typed there since keeps what stands there.
 */

import * as vscode from 'vscode';
import type { ApplyWorkspaceEditResult, WorkspaceEdit } from 'vscode-languageclient/node';

/** The refusal of an edit; nothing if it can be applied. */
export function whyNot(edit: WorkspaceEdit): ApplyWorkspaceEditResult | undefined {
  for (const change of edit.documentChanges ?? []) {
    if (!('textDocument' in change) || change.textDocument.version !== null) continue;
    const wanted = vscode.Uri.parse(change.textDocument.uri).toString();
    const open = vscode.workspace.textDocuments.find(({ uri }) => uri.toString() === wanted);
    if (open?.isDirty) return { applied: false, failureReason: 'the document was opened and typed into meanwhile' };
  }
  return undefined;
}
