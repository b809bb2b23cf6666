/** Context: what is suggested is what is selected now. */

import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { Context } from '../src/context.ts';
import { Selection, Uri, user, workspace } from './fake_vscode.ts';

beforeEach(() => user.begin({ '/project/a.py': 'one two\nthree\n' }));

test('another selection of the same line is suggested in the place of the first', async () => {
  const document = await workspace.openTextDocument(Uri.file('/project/a.py'));
  const context = new Context();
  user.select(document, new Selection(0, 0, 0, 3));
  assert.equal(context.suggested?.item.range?.end.character, 3);
  let told = 0;
  context.onDidChange(() => told++);
  user.select(document, new Selection(0, 4, 0, 7));
  assert.deepEqual(context.suggested?.item.range?.start, { line: 0, character: 4 });
  user.select(document, new Selection(0, 4, 0, 7));
  assert.equal(told, 1);
});

test('what no editor shows any more is not suggested', async () => {
  const document = await workspace.openTextDocument(Uri.file('/project/a.py'));
  const context = new Context();
  user.select(document, new Selection(0, 0, 0, 0));
  assert.equal(context.suggested?.label, 'a.py');
  user.select(undefined);
  assert.equal(context.suggested, undefined);
});
