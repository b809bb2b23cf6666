/** Links: where a link or a path leads that a model wrote, by its words alone. */

export type Target =
  | { kind: 'web'; href: string }
  | { kind: 'file'; file: string; line?: number; endLine?: number }
  | { kind: 'none' };

const PLACE = /^(.+?)(?:#L(\d+)(?:-L?(\d+))?|:(\d+)(?::\d+)?)?$/;
const SCHEME = /^[a-z][\w+.-]+:/i; // of two letters at least: one is a drive

/** The web, or a file with its lines: `a.py`, `a.py:2`, `a.py:2:5`, `a.py#L2-L3`; any other scheme could run something. */
export function targetOf(href: string): Target {
  if (/^(https?|mailto):/i.test(href)) return { kind: 'web', href };
  const [, file = '', line, endLine, colonLine] = PLACE.exec(decoded(href)) ?? [];
  if (file === '' || file.startsWith('#')) return { kind: 'none' };
  if (SCHEME.test(file) && !/^file:\/\//i.test(file)) return { kind: 'none' };
  const first = line ?? colonLine;
  return {
    kind: 'file',
    file,
    ...(first === undefined ? {} : { line: Number(first) }),
    ...(endLine === undefined ? {} : { endLine: Number(endLine) }),
  };
}

function decoded(href: string): string {
  try {
    return decodeURI(href);
  } catch {
    return href; // a lone % is a character of a name
  }
}
