/**
 * Asks: shows that the agent waits for a person.
 *
 * Rules: nothing here takes the focus or a keystroke: the chat has the question with its buttons, the badge and the
 * status item say so, and a notification leads there when the chat is not in sight.
 */

import * as vscode from 'vscode';
import type { LanguageClient } from 'vscode-languageclient/node';
import type { Chat } from './chat.ts';
import { unlinked } from './errors.ts';
import { APPROVE, ASK, REVIEW } from './protocol.ts';
import type { Reviews } from './review.ts';

type Parts = { chat: () => Chat; reviews: () => Reviews };

export function showAsks(client: LanguageClient, { chat, reviews }: Parts): vscode.Disposable[] {
  const pointTo = (text: string, button: string, command: string) => {
    if (chat().visible) return;
    void vscode.window.showInformationMessage(`DSH: ${unlinked(text)}`, button).then((choice) => {
      if (choice !== undefined) void vscode.commands.executeCommand(command);
    });
  };
  return [
    client.onRequest(
      APPROVE,
      ({ approval, title, unsaved }: { approval: string; title: string; unsaved?: string[] }) => {
        chat().noteUnsaved(approval, unsaved ?? []);
        pointTo(title, 'Show', 'dsh.ui.ask');
        return { shown: true };
      },
    ),
    client.onRequest(ASK, ({ text }: { text: string }) => {
      pointTo(text, 'Answer', 'dsh.ui.ask');
      return { shown: true };
    }),
    client.onRequest(REVIEW, () => {
      if (chat().focused) reviews().showSoon();
      else pointTo('edits wait for your review', 'Review', 'dsh.ui.reviewEdits');
      return { shown: true };
    }),
  ];
}
