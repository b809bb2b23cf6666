/** Highlight: code as elements with the highlighter's classes; a language that it does not know stays plain. */

import hljs from 'highlight.js/lib/core';
import bash from 'highlight.js/lib/languages/bash';
import c from 'highlight.js/lib/languages/c';
import cpp from 'highlight.js/lib/languages/cpp';
import css from 'highlight.js/lib/languages/css';
import diff from 'highlight.js/lib/languages/diff';
import go from 'highlight.js/lib/languages/go';
import ini from 'highlight.js/lib/languages/ini';
import java from 'highlight.js/lib/languages/java';
import javascript from 'highlight.js/lib/languages/javascript';
import json from 'highlight.js/lib/languages/json';
import lua from 'highlight.js/lib/languages/lua';
import python from 'highlight.js/lib/languages/python';
import rust from 'highlight.js/lib/languages/rust';
import sql from 'highlight.js/lib/languages/sql';
import typescript from 'highlight.js/lib/languages/typescript';
import xml from 'highlight.js/lib/languages/xml';
import yaml from 'highlight.js/lib/languages/yaml';
import { el } from './dom.ts';

const LANGUAGES = {
  bash,
  c,
  cpp,
  css,
  diff,
  go,
  ini,
  java,
  javascript,
  json,
  lua,
  python,
  rust,
  sql,
  typescript,
  xml,
  yaml,
};
const LONGEST = 20_000; // characters; what is longer is not worth a long frame

for (const [name, language] of Object.entries(LANGUAGES)) hljs.registerLanguage(name, language);

/** The highlighter's own tree, before it would be written as HTML. */
type Tree = { scope?: string; children: (Tree | string)[] };

export function highlighted(text: string, language: string): Node {
  if (text.length > LONGEST || hljs.getLanguage(language) === undefined) return document.createTextNode(text);
  const result = hljs.highlight(text, { language, ignoreIllegals: true });
  const fragment = document.createDocumentFragment();
  const root = (result._emitter as unknown as { rootNode: Tree }).rootNode;
  for (const child of root.children) fragment.append(nodeOf(child));
  return fragment;
}

function nodeOf(tree: Tree | string): Node | string {
  if (typeof tree === 'string') return tree;
  const names = (tree.scope ?? '').split('.').map((part) => `hl-${part}`);
  return el('span', { class: names.join(' ') }, ...tree.children.map(nodeOf));
}
