/** Server: where it is looked for. */

import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import * as path from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { ServerFinder } from '../src/server.ts';
import { Uri, user } from './fake_vscode.ts';

const { PATH } = process.env;
let home: string;
let finder: ServerFinder;

beforeEach(async () => {
  user.begin();
  home = await mkdtemp(path.join(tmpdir(), 'dsh-'));
  await writeFile(path.join(home, 'dsh-lsp'), '');
  process.env.PATH = home;
  const context = { globalStorageUri: Uri.file(path.join(home, 'kept')), extensionPath: home };
  finder = new ServerFinder(context as never, { warn: () => {}, debug: () => {} } as never);
});

afterEach(async () => {
  process.env.PATH = PATH;
  await rm(home, { recursive: true });
});

test('a configured command is taken as it is, and what is no command is said to be none', async () => {
  user.settings.set('dsh.client.server', ['/somewhere/dsh-lsp', 'serve']);
  assert.deepEqual(await finder.find(), {
    command: '/somewhere/dsh-lsp',
    args: ['serve'],
    from: 'the setting dsh.client.server',
  });
  for (const wrong of ['dsh-lsp serve', { command: 'dsh-lsp' }, 5, [''], ['dsh-lsp', 5]]) {
    user.settings.set('dsh.client.server', wrong);
    await assert.rejects(finder.find(), /dsh\.client\.server must be a list/, JSON.stringify(wrong));
  }
});

test('an interpreter that is not told leaves the search path', async () => {
  user.extensions.set('ms-python.python', {
    activate: async () => {
      throw new Error('it does not start');
    },
  });
  assert.equal((await finder.find())?.command, path.join(home, 'dsh-lsp'));
});
