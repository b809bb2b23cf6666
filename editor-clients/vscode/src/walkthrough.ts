/**
 * Walkthrough: ticks the steps that are done, by whatever means they were.
 *
 * Rules: an editor ticks a step only when its key turns true while it knows the step, and it reads the steps a moment
 * after the page is first shown. A key that was true before ticks nothing, so ours are true for a moment only: some
 * times after such a page is shown, and when one more step may be done.
 */

import * as vscode from 'vscode';

/** The context keys that the manifest's `completionEvents` name. */
const KEYS = { server: 'dsh.done.server', key: 'dsh.done.key', endpoint: 'dsh.done.endpoint' } as const;
type Step = keyof typeof KEYS;

const TELL_AFTER_MS = [0, 500, 1_000, 2_000, 4_000];

type Parts = {
  /** Which steps are done. */
  done: () => Promise<Record<Step, boolean>>;
  /** Tell when that may have changed. */
  changes: vscode.Event<unknown>[];
  tellAfterMs?: number[];
};

export class Walkthrough implements vscode.Disposable {
  readonly #done: Parts['done'];
  readonly #tellAfterMs: number[];
  readonly #disposables: vscode.Disposable[];
  #timers: NodeJS.Timeout[] = [];

  constructor({ done, changes, tellAfterMs = TELL_AFTER_MS }: Parts) {
    this.#done = done;
    this.#tellAfterMs = tellAfterMs;
    this.#disposables = [
      vscode.window.tabGroups.onDidChangeTabs(({ opened, changed }) => {
        if ([...opened, ...changed].some(mayBeWalkthrough)) this.#tellSoon();
      }),
      ...changes.map((onDidChange) => onDidChange(() => this.#tellSoon())),
    ];
    this.#tellSoon(); // the window may have begun with the page
  }

  #tellSoon(): void {
    this.#stop();
    const tabs = vscode.window.tabGroups.all.flatMap((group) => group.tabs);
    if (!tabs.some(mayBeWalkthrough)) return;
    this.#timers = this.#tellAfterMs.map((delay) => setTimeout(() => void this.#tell(), delay));
  }

  async #tell(): Promise<void> {
    const done = await this.#done();
    for (const step of Object.keys(KEYS) as Step[]) {
      if (!done[step]) continue;
      await vscode.commands.executeCommand('setContext', KEYS[step], true);
      await vscode.commands.executeCommand('setContext', KEYS[step], false);
    }
  }

  #stop(): void {
    for (const timer of this.#timers.splice(0)) clearTimeout(timer);
  }

  dispose(): void {
    this.#stop();
    for (const disposable of this.#disposables) disposable.dispose();
  }
}

/** Whether a tab shows something that the stable API has no name for, as it has none for a walkthrough. */
function mayBeWalkthrough({ isActive, input }: vscode.Tab): boolean {
  return isActive && input === undefined;
}
