/** DOM: what is drawn again, and what stays. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import './fake_dom.ts';
import { drawParts, el, type Part } from '../src/webview/dom.ts';

const part = (says: string): Part => [says, () => el('button', {}, says)];
const parts = (...all: string[]) => all.map(part);

test('a part that says the same is the same element, whatever comes and goes around it', () => {
  const bar = el('div');
  drawParts(bar, parts('mode', '10%', 'stop'));
  const [mode, , stop] = [...bar.children];
  drawParts(bar, parts('mode', '12%', 'queue', 'steer', 'stop'));
  assert.deepEqual(
    [...bar.children].map((child) => child.textContent),
    ['mode', '12%', 'queue', 'steer', 'stop'],
  );
  assert.equal(bar.children[0], mode);
  assert.equal(bar.children[4], stop);
  drawParts(bar, parts('mode', '12%', 'send'));
  assert.deepEqual(
    [...bar.children].map((child) => child.textContent),
    ['mode', '12%', 'send'],
  );
  assert.equal(bar.children[0], mode);
});
