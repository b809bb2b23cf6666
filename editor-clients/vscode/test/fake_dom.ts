/**
 * Fake DOM: the part of a page's document that the page's drawing uses, in memory, which counts what is made.
 *
 * Rules: nodes have one parent; what a test reads is what a browser would show, as HTML.
 */

let made = 0;

class FakeNode {
  parentElement: FakeElement | null = null;
  constructor() {
    made++;
  }
  remove(): void {
    const siblings = this.parentElement?.childNodes;
    siblings?.splice(siblings.indexOf(this), 1);
    this.parentElement = null;
  }
  replaceWith(next: FakeNode): void {
    const parent = this.parentElement;
    if (parent === null || next === this) return;
    next.remove();
    parent.childNodes[parent.childNodes.indexOf(this)] = next;
    next.parentElement = parent;
    this.parentElement = null;
  }
}

class FakeText extends FakeNode {
  data: string;
  constructor(data: string) {
    super();
    this.data = data;
  }
}

class FakeElement extends FakeNode {
  readonly childNodes: FakeNode[] = [];
  readonly attributes = new Map<string, string>();
  readonly dataset: Record<string, string> = {};
  readonly tagName: string;
  constructor(tag: string) {
    super();
    this.tagName = tag.toUpperCase();
  }
  get children(): FakeElement[] {
    return this.childNodes.filter((node) => node instanceof FakeElement);
  }
  get firstElementChild(): FakeElement | null {
    return this.children[0] ?? null;
  }
  get lastElementChild(): FakeElement | null {
    return this.children.at(-1) ?? null;
  }
  get textContent(): string {
    return this.childNodes
      .map((node) => (node instanceof FakeText ? node.data : (node as FakeElement).textContent))
      .join('');
  }
  append(...nodes: (FakeNode | string)[]): void {
    for (const one of nodes) {
      const node = typeof one === 'string' ? new FakeText(one) : one;
      if (node instanceof FakeElement && node.tagName === FRAGMENT) this.append(...node.childNodes.splice(0));
      else {
        node.remove();
        node.parentElement = this;
        this.childNodes.push(node);
      }
    }
  }
  appendChild(node: FakeNode): void {
    this.append(node);
  }
  replaceChildren(...nodes: (FakeNode | string)[]): void {
    for (const node of this.childNodes.splice(0)) node.parentElement = null;
    this.append(...nodes);
  }
  insertBefore(node: FakeNode, next: FakeNode | null): void {
    node.remove();
    node.parentElement = this;
    this.childNodes.splice(next === null ? this.childNodes.length : this.childNodes.indexOf(next), 0, node);
  }
  setAttribute(name: string, value: string): void {
    this.attributes.set(name, value);
  }
  addEventListener(): void {}
  get classList() {
    const names = () => (this.attributes.get('class') ?? '').split(' ').filter((name) => name !== '');
    const set = (all: string[]) => void this.attributes.set('class', all.join(' '));
    return {
      add: (name: string) => set([...names(), name]),
      remove: (name: string) => set(names().filter((one) => one !== name)),
      contains: (name: string) => names().includes(name),
    };
  }
}

const FRAGMENT = '#FRAGMENT';

let state: unknown; // what the editor keeps for the page

Object.assign(globalThis, {
  acquireVsCodeApi: () => ({
    postMessage: () => {},
    getState: () => state,
    setState: (next: unknown) => {
      state = next;
    },
  }),
  document: {
    createElement: (tag: string) => new FakeElement(tag),
    createTextNode: (text: string) => new FakeText(text),
    createDocumentFragment: () => new FakeElement(FRAGMENT),
  },
});

/** How many nodes have been made while something runs. */
export function madeBy(run: () => void): number {
  const before = made;
  run();
  return made - before;
}

/**
 * What a node holds, as HTML in short: without the pieces that a text grows by, and with the paragraphs of a tight
 * list as the text that they are.
 */
export function htmlOf(node: unknown): string {
  if (node instanceof FakeText) return node.data;
  const element = node as FakeElement;
  const inner = element.childNodes.map(htmlOf).join('');
  const parent = element.parentElement;
  const isTight = parent?.tagName === 'LI' && parent.parentElement?.classList.contains('tight');
  if (element.tagName === FRAGMENT || element.classList.contains('piece')) return inner;
  if (element.tagName === 'P' && isTight) return inner;
  if (element.tagName === 'SPAN') return inner; // the colours of code, which a piece may have of its own
  const start = element.attributes.has('start') ? ` ${element.attributes.get('start')}` : '';
  return `<${element.tagName.toLowerCase()}${start}>${inner}</>`;
}
