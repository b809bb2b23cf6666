/** Items: what is drawn of what was said. */

import './fake_dom.ts';

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { draw } from '../src/webview/items.ts';
import { htmlOf } from './fake_dom.ts';

const said = (text: string) => htmlOf(draw({ kind: 'user', id: 'm', text, interrupted: false, refused: false }));

test('what the user pointed at is folded, and what they wrote is not, their own code among it', () => {
  const words = 'Mend this:\n\n```py\nx = 1\n```\n\nand say why.';
  assert.equal(said(words), `<div>You: <div>${words}</></>`);
  const pointed = said(`${words}\n\nFrom a.py, lines 1-2:\n\`\`\`\ny = 2\n\`\`\``);
  assert.match(pointed, /and say why\.<\/><details>.*From a\.py.*y = 2/s);
  assert.equal(pointed.indexOf('x = 1') < pointed.indexOf('<details>'), true);
});

test('a screen reader hears the end of a tool, and not each line that it tells on the way', () => {
  const tool = { kind: 'tool' as const, callId: 'c', name: 'shell', arguments: '{}', title: 'pytest' };
  const live = (element: unknown) => (element as { attributes: Map<string, string> }).attributes.get('aria-live');
  assert.equal(live(draw({ ...tool, state: 'running', progress: 'one\ntwo' })), 'off');
  assert.equal(live(draw({ ...tool, state: 'running' })), 'off');
  assert.equal(live(draw({ ...tool, state: 'done', result: 'one\ntwo\n' })), undefined);
});
