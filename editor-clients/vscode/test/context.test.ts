/** Context: what is suggested is what is selected now, and what was chosen stays the same text. */

import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { Context, documentChip, fileChip, selectionChip } from '../src/context.ts';
import { Range, Selection, Uri, user, workspace } from './fake_vscode.ts';

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

const names = async (context: Context, query: string) => (await context.find(query)).map(({ detail }) => detail);

test('a file is found by a part of its path in a project of many files, whatever the case', async () => {
  const many = Object.fromEntries(Array.from({ length: 6_000 }, (_, at) => [`/project/a/file${at}.py`, '']));
  user.begin({ ...many, '/project/src/Wanted.py': '', '/project/wanted/other.py': '', '/project/[id].ts': '' });
  const context = new Context();
  assert.deepEqual(await names(context, 'wanted'), ['src/Wanted.py', 'wanted/other.py']);
  assert.deepEqual(await names(context, 'src/wan'), ['src/Wanted.py']);
  assert.deepEqual(await names(context, '[id'), ['[id].ts']);
  assert.equal((await names(context, '')).length, 30);
});

test('where the user does not search nothing is found', async () => {
  user.begin({ '/project/a.py': '', '/project/built/a.py': '', '/project/kept/a.py': '' });
  user.settings.set('search.exclude', { '**/built/**': true, '**/kept/**': false });
  assert.deepEqual(await names(new Context(), 'a.py'), ['a.py', 'kept/a.py']);
});

test('a query that is typed further is not searched for', async () => {
  const context = new Context();
  const [first, second] = await Promise.all([context.find('a'), context.find('a.p')]);
  assert.deepEqual(first, []);
  assert.equal(second.length, 1);
});

const chosen = ({ chips }: Context) => chips.map(({ label, item: { range, text } }) => ({ label, range, text }));

test('a part that was chosen stays the same text while its document is edited, until that is deleted', async () => {
  const document = await workspace.openTextDocument(Uri.file('/project/a.py'));
  const other = await workspace.openTextDocument(Uri.file('/project/b.py'));
  const context = new Context();
  const chip = selectionChip({ document, selection: new Selection(1, 0, 1, 5) } as never);
  if (chip) context.add(chip);
  document.replace(new Range(0, 0, 0, 0), 'zero\n');
  other.replace(new Range(0, 0, 0, 0), 'elsewhere\n');
  const range = { start: { line: 2, character: 0 }, end: { line: 2, character: 5 } };
  assert.deepEqual(chosen(context), [{ label: 'a.py:3', range, text: undefined }]);
  document.replace(new Range(1, 0, 3, 0), '');
  assert.deepEqual(chosen(context), []);
});

test('what was sent is forgotten, though its document is edited while it is on its way', async () => {
  const document = await workspace.openTextDocument(Uri.file('/project/a.py'));
  const context = new Context();
  const chip = selectionChip({ document, selection: new Selection(1, 0, 1, 5) } as never);
  if (chip) context.add(chip);
  context.add(documentChip(document as never));
  let told = 0;
  const { chips } = context;
  const listener = context.onDidChange(() => told++);
  document.replace(new Range(0, 0, 0, 0), 'zero\n');
  assert.equal(told, 1);
  context.clear(chips);
  assert.deepEqual(context.chips, []);
  context.add(documentChip(document as never));
  told = 0;
  document.replace(new Range(0, 0, 0, 0), 'a key\n');
  assert.equal(told, 0, 'a file is the same one, whatever is typed into it');
  listener.dispose();
});

test('of a document that is no file the text goes along, as it reads when it is sent', async () => {
  const document = await workspace.openTextDocument({ content: 'one two\nthree\n' });
  const context = new Context();
  const chip = selectionChip({ document, selection: new Selection(0, 4, 0, 7) } as never);
  if (chip) context.add(chip);
  context.add(documentChip(document as never));
  document.replace(new Range(0, 0, 0, 3), 'more');
  document.replace(new Range(0, 6, 0, 6), 'x');
  assert.deepEqual(
    chosen(context).map(({ text }) => text),
    ['txwo', 'more txwo\nthree\n'],
  );
});

test('files of folders with the same name are told apart', () => {
  workspace.workspaceFolders = ['/project/one/app', '/project/two/app', '/project/lib'].map((folder) => ({
    uri: Uri.file(folder),
    name: folder.split('/').at(-1) ?? '',
  }));
  const details = ['one/app/a.py', 'two/app/a.py', 'lib/a.py'].map((file) =>
    fileChip(Uri.file(`/project/${file}`) as never),
  );
  assert.deepEqual(
    details.map(({ label, detail }) => [label, detail]),
    [
      ['a.py', '/project/one/app/a.py'],
      ['a.py', '/project/two/app/a.py'],
      ['a.py', 'lib/a.py'],
    ],
  );
});
