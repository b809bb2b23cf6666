/** Review tabs: finds and closes the tabs that show proposals. */

import * as vscode from 'vscode';
import { PROPOSAL } from './proposal_files.ts';

/** What the titles of all reviews begin with; the stable API does not say what a tab with several files shows. */
export const TITLE = 'DSH review';

/** Close the tabs of proposals; one that the user has corrected is kept first, so that nothing asks. */
export async function closeTabs(which: (uri: vscode.Uri) => boolean): Promise<void> {
  for (const document of vscode.workspace.textDocuments) {
    // Whether it is dirty is known here only some time after an edit; saving one that is not does nothing.
    if (document.uri.scheme === PROPOSAL && which(document.uri)) await document.save();
  }
  const found = proposalTabs(which);
  if (found.length > 0) await vscode.window.tabGroups.close(found, true);
}

/** The tabs that show proposals; one with several files only if all of them are meant. */
export function proposalTabs(which: (uri: vscode.Uri) => boolean): vscode.Tab[] {
  const tabs = vscode.window.tabGroups.all.flatMap((group) => group.tabs);
  return tabs.filter((tab) => {
    const input = tab.input;
    if (input instanceof vscode.TabInputTextDiff) return input.modified.scheme === PROPOSAL && which(input.modified);
    if (input instanceof vscode.TabInputText) return input.uri.scheme === PROPOSAL && which(input.uri);
    return (
      tab.label.startsWith(`${TITLE}: `) &&
      vscode.workspace.textDocuments.every(({ uri }) => uri.scheme !== PROPOSAL || which(uri))
    );
  });
}
