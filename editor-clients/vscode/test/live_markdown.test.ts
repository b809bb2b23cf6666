/** Live Markdown: what streams reads as the whole text does, however it is cut, at a cost that does not grow. */

import './fake_dom.ts';

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LiveMarkdown } from '../src/webview/live_markdown.ts';
import { markdown } from '../src/webview/markdown.ts';
import { htmlOf, madeBy } from './fake_dom.ts';

const TEXTS: Record<string, string> = {
  paragraphs: 'One *word*.\nAnd another.\n\nTwo `codes` here.\n',
  headings: '# One\ntext\n## Two ##\n\nThree\n-----\n\n***\nend\n',
  'a tight list': '- one\n- **two**\n  goes on\n- three\n\nAfter it.\n',
  'a loose list': '1. one\n\n2. two\n\n   more of two\n3. three\n\nAfter it.\n',
  'a list that begins late': 'Steps:\n\n7. seven\n8. eight\n9) another list\n',
  'lists in lists': '- a\n  - b\n    1. c\n    2. d\n  - e\n\n    more of e\n- f\n* g\n',
  'a list amid a paragraph': 'Words:\n- one\n- two\nlazy words\n\n2. no list before\n',
  'code in a list': '1. Run it:\n\n   ```sh\n   make all\n\n   make test\n   ```\n2. Done.\n',
  'a fence': 'See:\n```python\ndef f():\n    return "```"\n\n# - no list\n```\nAfter.\n',
  'a longer fence': '````md\n```\ninner\n```\n````\n~~~\n- x\n~~~\n',
  'a fence without an end': '```js\nconst a = 1;\n\n- b\n',
  'indented code': 'See:\n\n    first\n\n    second\n\nAfter.\n',
  quotes: '> One\n> two\nlazy\n>\n> - a\n> - b\n\nAfter.\n',
  'a table': '| a | b |\n|---|:-:|\n| 1 | `2` |\n| 3 | 4 |\n\nAfter.\n',
  'no table': 'a | b\n\n| c |\nd\n--- | ---\n',
  'rules and items': '- a\n- - -\n- b\n',
  'ends of lines': 'One\r\n\r\n- a\r\n- b\r\n',
  'HTML and links': '<b>bold?</b>\n\n[a](https://example.com) ![b](c.png)\n',
  'empty items': '-\n- a\n-\n\nEnd.\n',
  'no end': 'One\n\n- two\n- thr',
};

function streamed(text: string, size: number): string {
  const place = document.createElement('div');
  const live = new LiveMarkdown(place);
  for (let at = 0; at < text.length; at += size) live.add(text.slice(at, at + size));
  return htmlOf(place).replaceAll('<div>', '');
}

/** What the whole text reads as; previews and boxes are not compared. */
function whole(text: string): string {
  const place = document.createElement('div');
  place.append(markdown(text));
  return htmlOf(place).replaceAll('<div>', '');
}

for (const [name, text] of Object.entries(TEXTS)) {
  test(`what streams reads as it does in the end: ${name}`, () => {
    for (const size of [1, 2, 3, 7, 64, text.length]) assert.equal(streamed(text, size), whole(text), `by ${size}`);
  });
}

/** Long texts, each of one block that never ends by a blank line. */
const LONG: Record<string, (count: number) => string> = {
  'a list': (count) => lines(count, (at) => `${at + 1}. item *${at}* with \`code\``),
  'a loose list': (count) => lines(count, (at) => `- item *${at}*\n\n  and more of it\n`),
  'a list in a list': (count) => `- all:\n${lines(count, (at) => `  - item **${at}**`)}`,
  'a fence': (count) => `\`\`\`python\n${lines(count, (at) => `x${at} = "${at}"  # a line`)}`,
  'a fence in a list': (count) => `- see:\n  \`\`\`\n${lines(count, (at) => `  line ${at}`)}`,
  'a table': (count) => `| a | b |\n|---|---|\n${lines(count, (at) => `| ${at} | **b** |`)}`,
  'a quote': (count) => lines(count, (at) => `> words ${at}`),
  'one line': (count) => `${Array.from({ length: count * 4 }, (_, at) => `word${at}`).join(' ')}`,
  'one line of code': (count) => `\`\`\`\n${'x'.repeat(count * 30)}`,
};
const lines = (count: number, line: (at: number) => string) =>
  Array.from({ length: count }, (_, at) => line(at)).join('\n');

for (const [name, make] of Object.entries(LONG)) {
  test(`a long text is drawn at a cost that grows with its length alone: ${name}`, () => {
    const cost = (count: number) => {
      const text = make(count);
      const live = new LiveMarkdown(document.createElement('div'));
      let most = 0;
      for (let at = 0; at < text.length; at += 40) {
        most = Math.max(
          most,
          madeBy(() => live.add(text.slice(at, at + 40))),
        );
      }
      return most;
    };
    const [short, long] = [cost(400), cost(4_000)];
    assert.ok(long <= short * 1.25 + 20, `one frame made ${short} nodes of a short text, ${long} of a long one`);
  });

  test(`a long text is Markdown while it streams: ${name}`, () => {
    const text = make(400);
    assert.ok(text.length > 3_000);
    assert.equal(plain(streamed(`${text}\n`, 100)), plain(whole(text)));
  });
}

/** Without the paragraph marks: whether a list is loose may be known only at its end. */
const plain = (html: string) => html.replaceAll('<p>', '').replaceAll('</>', '').trim();
