/** DOM: makes elements; text is always text, never HTML. */

export type Child = Node | string | undefined | false;
type Properties = { [key: string]: string | boolean | number | ((event: Event) => void) | undefined };

/** Make an element: `class`, attributes, `on…` listeners, children. */
export function el(tag: string, properties: Properties = {}, ...children: Child[]): HTMLElement {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === false) continue;
    if (typeof value === 'function') element.addEventListener(name.replace(/^on/, ''), value);
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  element.append(...children.filter((child): child is Node | string => child !== undefined && child !== false));
  return element;
}

export function icon(name: string): HTMLElement {
  return el('span', { class: `codicon codicon-${name}`, 'aria-hidden': 'true' });
}

/** A button with words, and an icon if one is named. */
export function button(
  label: string,
  onclick: () => void,
  options: { icon?: string; class?: string; key?: string } = {},
): HTMLElement {
  const properties = {
    type: 'button',
    class: options.class ?? 'plain',
    onclick,
    ...(options.key ? { 'data-key': options.key } : {}),
  };
  return el('button', properties, options.icon ? icon(options.icon) : undefined, el('span', {}, label));
}

/** A button that is an icon; its label is for the mouse that rests on it and for a screen reader. */
export function iconButton(name: string, label: string, onclick: () => void, more: Properties = {}): HTMLElement {
  return el(
    'button',
    { type: 'button', class: 'icon', title: label, 'aria-label': label, onclick, ...more },
    icon(name),
  );
}

/** A part of an element: what it says, and how it is made. */
export type Part = [says: string, make: () => HTMLElement];

/** Draw an element's parts in order, anew only those that say something else: what has the focus or is clicked stays. */
export function drawParts(parent: HTMLElement, parts: Part[]): void {
  const wanted = new Set(parts.map(([says]) => says));
  for (const child of [...parent.children] as HTMLElement[]) {
    if (!wanted.has(child.dataset.says ?? '')) child.remove();
  }
  for (const [index, [says, make]] of parts.entries()) {
    const there = parent.children[index] as HTMLElement | undefined;
    if (there?.dataset.says === says) continue;
    const made = make();
    made.dataset.says = says;
    parent.insertBefore(made, there ?? null);
  }
}
