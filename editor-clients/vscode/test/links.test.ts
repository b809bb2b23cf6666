/** Links: what a model writes leads to the file and line that it means, and nowhere else. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Target, targetOf } from '../src/links.ts';

const file = (name: string, line?: number, endLine?: number): Target => ({
  kind: 'file',
  file: name,
  ...(line === undefined ? {} : { line }),
  ...(endLine === undefined ? {} : { endLine }),
});

const CASES: [href: string, target: Target][] = [
  ['calc.py', file('calc.py')],
  ['calc.py:2', file('calc.py', 2)],
  ['calc.py:2:5', file('calc.py', 2)],
  ['calc.py#L2', file('calc.py', 2)],
  ['calc.py#L2-L3', file('calc.py', 2, 3)],
  ['calc.py#L2-3', file('calc.py', 2, 3)],
  ['calc.f90', file('calc.f90')],
  ['pkg/v2', file('pkg/v2')],
  ['a%20b.py:7', file('a b.py', 7)],
  ['100%.txt', file('100%.txt')],
  ['/etc/hosts', file('/etc/hosts')],
  ['C:\\work\\calc.py:3', file('C:\\work\\calc.py', 3)],
  ['file:///project/calc.py#L2', file('file:///project/calc.py', 2)],
  ['https://example.com:80', { kind: 'web', href: 'https://example.com:80' }],
  ['mailto:someone@example.com', { kind: 'web', href: 'mailto:someone@example.com' }],
  ['command:workbench.action.terminal.new', { kind: 'none' }],
  ['vscode://extension/do', { kind: 'none' }],
  ['javascript:alert(1)', { kind: 'none' }],
  ['#section', { kind: 'none' }],
  ['', { kind: 'none' }],
];

for (const [href, target] of CASES)
  test(`"${href}" leads to ${JSON.stringify(target)}`, () => assert.deepEqual(targetOf(href), target));
