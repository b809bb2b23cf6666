/**
 * Markdown: what a model wrote, as elements.
 *
 * Rules: no HTML is ever parsed: the parser's tokens become elements from a closed list, HTML in the text stays text,
 * pictures are named and not loaded, and a link says where it goes and opens nothing by itself.
 */

import MarkdownIt from 'markdown-it';
import { el, iconButton } from './dom.ts';
import { highlighted } from './highlight.ts';
import { post } from './page.ts';

const parser = new MarkdownIt({ html: false, linkify: false, breaks: false });
const TAGS = new Set('p h1 h2 h3 h4 h5 h6 ul ol li blockquote strong em s table thead tbody tr th td'.split(' '));

type Token = ReturnType<typeof parser.parse>[number];

export function markdown(text: string): DocumentFragment {
  const fragment = document.createDocumentFragment();
  build(parser.parse(text, {}), fragment);
  return fragment;
}

/** What stands within a paragraph. */
export function inlineMarkdown(text: string): DocumentFragment {
  const fragment = document.createDocumentFragment();
  build(parser.parseInline(text, {}), fragment);
  return fragment;
}

function build(tokens: Token[], root: Node): void {
  const stack: Node[] = [root];
  const top = () => stack.at(-1) ?? root;
  for (const token of tokens) {
    if (token.nesting === 1 && token.hidden) {
      stack.push(top()); // the paragraph of a tight list's item
    } else if (token.nesting === 1) {
      const element = opened(token);
      top().appendChild(element);
      stack.push(element);
    } else if (token.nesting === -1) {
      stack.pop();
    } else if (token.type === 'inline') {
      build(token.children ?? [], top());
    } else {
      top().appendChild(leaf(token));
    }
  }
}

function opened(token: Token): Node {
  if (token.tag === 'a') return link(String(token.attrGet('href') ?? ''));
  const element = el(TAGS.has(token.tag) ? token.tag : 'span');
  const align = /text-align:(left|center|right)/.exec(String(token.attrGet('style') ?? ''))?.[1];
  if (align !== undefined) element.classList.add(`align-${align}`);
  const start = token.attrGet('start');
  if (token.tag === 'ol' && start !== null) element.setAttribute('start', String(Number(start)));
  return element;
}

function leaf(token: Token): Node {
  switch (token.type) {
    case 'code_inline':
      return el('code', {}, token.content);
    case 'fence':
    case 'code_block':
      return codeBlock(token.content, token.info.trim().split(/\s/)[0] ?? '');
    case 'softbreak':
      return document.createTextNode('\n');
    case 'hardbreak':
      return el('br');
    case 'hr':
      return el('hr');
    case 'image':
      return el('em', {}, `[picture: ${token.content || String(token.attrGet('src') ?? '')}]`);
    default:
      return document.createTextNode(token.content);
  }
}

function link(href: string): HTMLElement {
  const open = (event: Event) => {
    event.preventDefault();
    post({ kind: 'link', href });
  };
  return el('a', { href: '#', title: href, onclick: open });
}

export function codeBlock(text: string, language: string): HTMLElement {
  const { element, code } = codeFrame(language, () => text);
  code.append(highlighted(text, language));
  return element;
}

/** A block for code, still empty; `copied` is what its button copies. */
export function codeFrame(language: string, copied: () => string): { element: HTMLElement; code: HTMLElement } {
  const copy = iconButton('copy', 'Copy', () => post({ kind: 'copy', text: copied() }));
  const code = el('code', {});
  const head = el('div', { class: 'code-head' }, el('span', {}, language || 'text'), copy);
  return { element: el('div', { class: 'code' }, head, el('pre', { tabindex: 0 }, code)), code };
}
