/** Outbox: what becomes of words that are sent while others are on their way. */

import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { Outbox } from '../src/webview/outbox.ts';

let sent: string[];
let outbox: Outbox;

beforeEach(() => {
  sent = [];
  outbox = new Outbox(({ how, text }) => sent.push(`${how}: ${text}`));
});

test('what is sent while a message is on its way follows it once that one is accepted', () => {
  outbox.send('followup', ' Begin. ');
  outbox.send('steer', ' Begin. Be brief.');
  assert.deepEqual(sent, ['followup: Begin.']);
  assert.equal(outbox.accepted('Begin.', ' Begin. Be brief. And'), 'Be brief. And');
  assert.deepEqual(sent, ['followup: Begin.', 'steer: Be brief.']);
  assert.equal(outbox.accepted('Be brief.', 'Be brief. And'), 'And');
  assert.equal(sent.length, 2);
});

test('a key that is pressed twice sends once', () => {
  outbox.send('followup', 'Begin.');
  outbox.send('followup', 'Begin.');
  assert.equal(outbox.accepted('Begin.', 'Begin.'), '');
  assert.deepEqual(sent, ['followup: Begin.']);
});

test('what follows a message that is refused stays with it, and all is sent by the next key', () => {
  outbox.send('followup', 'Begin.');
  outbox.send('followup', 'Begin. More.');
  outbox.refused();
  assert.deepEqual(sent, ['followup: Begin.']);
  outbox.send('followup', 'Begin. More.');
  assert.deepEqual(sent, ['followup: Begin.', 'followup: Begin. More.']);
});

test('words of the page before leave the input, and other words stay in it', () => {
  assert.equal(outbox.accepted('Begin.', 'Begin. More.'), 'More.');
  assert.equal(outbox.accepted('Begin.', 'Something else.'), 'Something else.');
  assert.deepEqual(sent, []);
});
