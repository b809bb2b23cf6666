/**
 * Corrections: what users have written into proposals, given back when a proposal ends otherwise than by their word.
 *
 * Rules: it outlives the window; it is theirs until they have opened or discarded it.
 */

import * as vscode from 'vscode';
import { unlinked } from './errors.ts';

/** What a proposal read, and the file that it was about. */
export type Text = { uri: string; text: string };

const WAITING = 'corrections.waiting';
const LOST = 'corrections.lost';

export class Corrections {
  readonly #kept: vscode.Memento;

  constructor(kept: vscode.Memento) {
    this.#kept = kept;
  }

  /** Keep what is written into the proposals that wait. */
  keep(texts: Text[]): void {
    if (texts.length > 0 || this.#texts(WAITING).length > 0) void this.#kept.update(WAITING, texts);
  }

  /** After a start: the proposals of the window before are gone, what was written into them is not. */
  async recover(): Promise<void> {
    const waiting = this.#texts(WAITING);
    await this.#kept.update(WAITING, []);
    if (waiting.length + this.#texts(LOST).length > 0) await this.giveBack(waiting);
  }

  async giveBack(texts: Text[]): Promise<void> {
    const all = [...this.#texts(LOST), ...texts];
    await this.#kept.update(LOST, all);
    const names = [...new Set(all.map(({ uri }) => vscode.workspace.asRelativePath(vscode.Uri.parse(uri))))].join(
      ', ',
    );
    const choice = await vscode.window.showInformationMessage(
      `DSH: the review of ${unlinked(names)} has ended without your word. What you had written into the proposal is kept.`,
      'Open',
      'Discard',
    );
    if (choice === undefined) return; // told again after the next start
    const lost = this.#texts(LOST); // others may have come, and some been taken, while this message stood there
    const taken = lost.filter((text) => all.some((told) => isSame(told, text)));
    const left = lost.filter((text) => !taken.includes(text));
    await this.#kept.update(LOST, left);
    if (choice === 'Open') for (const text of taken) await open(text);
  }

  #texts(slot: string): Text[] {
    return this.#kept.get<Text[]>(slot) ?? [];
  }
}

function isSame(a: Text, b: Text): boolean {
  return a.uri === b.uri && a.text === b.text;
}

async function open({ uri, text }: Text): Promise<void> {
  const { languageId } = await vscode.workspace.openTextDocument(vscode.Uri.parse(uri)).then(
    (file) => file,
    () => ({ languageId: 'plaintext' }), // the file is not there
  );
  const document = await vscode.workspace.openTextDocument({ language: languageId, content: text });
  await vscode.window.showTextDocument(document, { preview: false, preserveFocus: true });
}
