/** Text edits: the ranges of a document that are replaced, and the texts that come there. */

import * as vscode from 'vscode';

/** What brings a document to the text that is wanted and touches least of it. */
export function smallestEdit(document: vscode.TextDocument, wanted: string): [vscode.Range, string] {
  const text = document.getText();
  let head = 0;
  while (head < text.length && head < wanted.length && text[head] === wanted[head]) head++;
  let tail = 0;
  const room = Math.min(text.length, wanted.length) - head;
  while (tail < room && text[text.length - 1 - tail] === wanted[wanted.length - 1 - tail]) tail++;
  const range = new vscode.Range(document.positionAt(head), document.positionAt(text.length - tail));
  return [range, wanted.slice(head, wanted.length - tail)];
}

/** The range and text that replace whole lines of a document, its last line among them. */
export function replacement(
  document: vscode.TextDocument,
  start: number,
  end: number,
  lines: string[],
): [vscode.Range, string] {
  const eol = document.eol === vscode.EndOfLine.CRLF ? '\r\n' : '\n';
  if (end < document.lineCount) return [new vscode.Range(start, 0, end, 0), lines.map((line) => line + eol).join('')];
  const last = document.lineAt(document.lineCount - 1).range.end;
  if (start === 0) return [new vscode.Range(new vscode.Position(0, 0), last), lines.join(eol)];
  return [new vscode.Range(document.lineAt(start - 1).range.end, last), lines.map((line) => eol + line).join('')];
}
