/** Reviews: what is said of edits that wait and do not fit the file as the editor reads it. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Corrections } from '../src/corrections.ts';
import { ProposalFiles } from '../src/proposal_files.ts';
import { Reviews } from '../src/review.ts';
import { EMPTY } from '../src/view.ts';
import { EventEmitter, user } from './fake_vscode.ts';

test('edits that cannot be shown are not denied', async () => {
  user.begin({ '/project/a.py': 'read otherwise\n' });
  const range = { start: { line: 0, character: 0 }, end: { line: 1, character: 0 } };
  const hunk = { id: 'a', range, oldText: 'one\n', newText: 'ONE\n' };
  let pending = [{ proposal: 'p', uri: 'file:///project/a.py', kind: 'edit', hunks: [hunk] }];
  const warned: string[] = [];
  const [files] = ProposalFiles.register();
  const reviews = new Reviews({
    client: { run: async () => ({ files: pending }), onValue: new EventEmitter().event } as never,
    store: { session: 's', view: EMPTY, onDidChange: new EventEmitter().event } as never,
    files,
    corrections: new Corrections({ get: () => undefined, update: async () => {} } as never),
    log: { warn: (text: string) => warned.push(text) } as never,
    isElsewhere: () => false,
  });
  await reviews.show();
  assert.deepEqual(user.told, ['DSH: what waits does not fit the files here.']);
  assert.equal(warned.length, 1);
  pending = [];
  await reviews.show();
  assert.equal(user.told.at(-1), 'DSH: no edits wait for a review.');
  assert.deepEqual(user.tabs(), []);
});
