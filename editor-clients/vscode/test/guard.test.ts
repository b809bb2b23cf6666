/** Guard: an edit of a file that was closed is refused where somebody has typed since. */

import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { whyNot } from '../src/guard.ts';
import { Position, Range, Uri, user, workspace } from './fake_vscode.ts';

const FILE = 'file:///project/a.py';
const at = { line: 0, character: 0 };
const edit = (version: number | null) => ({
  documentChanges: [
    { textDocument: { uri: FILE, version }, edits: [{ range: { start: at, end: at }, newText: 'x' }] },
  ],
});

beforeEach(() => user.begin());

test('a file that is not open is edited', () => {
  assert.equal(whyNot(edit(null)), undefined);
});

test('a document that is as its file is edited, and one that was typed into is not', async () => {
  const document = await workspace.openTextDocument(Uri.parse(FILE));
  assert.equal(whyNot(edit(null)), undefined);
  document.replace(new Range(new Position(0, 0), new Position(0, 0)), 'mine');
  assert.equal(whyNot(edit(null))?.applied, false);
  assert.equal(whyNot(edit(7)), undefined, 'the language client compares versions');
});

test('operations on files are no edits of a document', () => {
  assert.equal(whyNot({ documentChanges: [{ kind: 'delete', uri: FILE }] }), undefined);
});
