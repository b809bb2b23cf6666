/** Review tabs: finds and closes the tabs that show proposals. */

import * as vscode from 'vscode';
import { PROPOSAL } from './proposal_files.ts';

/** What the titles of all reviews begin with; the stable API does not say what a tab with several files shows. */
export const TITLE = 'DSH review';

type Which = (uri: vscode.Uri) => boolean;

/** Close the tabs of proposals. */
export async function closeTabs(which: Which, together: readonly vscode.Uri[] = []): Promise<void> {
  const found = await savedTabs(which, together);
  if (found.length > 0) await vscode.window.tabGroups.close(found, true);
}

/** The tabs of proposals, ready to be closed: what they show is saved, so that nothing asks. */
export async function savedTabs(
  which: Which,
  together: readonly vscode.Uri[],
  shown: Which = which,
): Promise<vscode.Tab[]> {
  for (const document of vscode.workspace.textDocuments) {
    // Whether it is dirty is known here only some time after an edit; saving one that is not does nothing.
    if (document.uri.scheme === PROPOSAL && shown(document.uri)) await document.save();
  }
  return proposalTabs(which, together);
}

/** The tabs that show proposals; the one with several files, which shows those of `together`, only if all are meant. */
function proposalTabs(which: Which, together: readonly vscode.Uri[]): vscode.Tab[] {
  const tabs = vscode.window.tabGroups.all.flatMap((group) => group.tabs);
  return tabs.filter((tab) => {
    const input = tab.input;
    if (input instanceof vscode.TabInputTextDiff) return input.modified.scheme === PROPOSAL && which(input.modified);
    if (input instanceof vscode.TabInputText) return input.uri.scheme === PROPOSAL && which(input.uri);
    return isOfSeveral(tab) && together.every(which);
  });
}

/** Tell menus whether the user is looking at several files of ours: the editor's own name is that of anybody's. */
export function tellSeveral(): vscode.Disposable {
  const tell = () => void vscode.commands.executeCommand('setContext', 'dsh.inSeveral', severalAreShown());
  const { tabGroups } = vscode.window;
  return vscode.Disposable.from(tabGroups.onDidChangeTabs(tell), tabGroups.onDidChangeTabGroups(tell));
}

/** Whether the user is looking at the tab that shows several files. */
export function severalAreShown(): boolean {
  return vscode.window.tabGroups.activeTabGroup.tabs.some((tab) => tab.isActive && isOfSeveral(tab));
}

function isOfSeveral({ input, label }: vscode.Tab): boolean {
  const isKnown = input instanceof vscode.TabInputTextDiff || input instanceof vscode.TabInputText;
  return !isKnown && label.startsWith(TITLE);
}
