/**
 * Live grammar: how a line begins, as CommonMark has it, so far as it tells where a block begins or ends.
 *
 * Rules: pure; a line has no line end.
 */

/** `offset` is where the item's own text begins, in characters. */
export type Marker = { type: string; offset: number; start: number | undefined; text: string };
export type FenceStart = { mark: string; indent: number; language: string };

const RULE = /^ {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$/;
const HEADING = /^ {0,3}#{1,6}(?:[ \t]|$)/;
const UNDERLINE = /^ {0,3}(?:=+|-+)[ \t]*$/;
const QUOTE = /^ {0,3}> ?/;
/** What may yet become a marker, an underline or a fence, and would be drawn as something else for a moment. */
const UNDECIDED = /^\s*(?:[-*+]|\d{1,9}[.)]?|#{1,6}|`{1,3}|~{1,3}|[-=_*]{2,}|[|>]?)\s*$/;

export const isBlank = (line: string) => line.trim() === '';
export const isRule = (line: string) => RULE.test(line);
export const isHeading = (line: string) => HEADING.test(line);
export const isUnderline = (line: string) => UNDERLINE.test(line);
export const isUndecided = (line: string) => UNDECIDED.test(line);
export const indentOf = (line: string) => line.length - line.trimStart().length;
export const withoutIndent = (line: string, most: number) => line.slice(Math.min(indentOf(line), most));

/** A line of a quote, without its mark. */
export function quoted(line: string): string | undefined {
  return QUOTE.test(line) ? line.replace(QUOTE, '') : undefined;
}

export function fenceStart(line: string): FenceStart | undefined {
  const [, indent, mark, info] = /^( {0,3})(`{3,}|~{3,})(.*)$/.exec(line) ?? [];
  if (indent === undefined || mark === undefined || info === undefined) return undefined;
  if (mark.startsWith('`') && info.includes('`')) return undefined;
  return { mark, indent: indent.length, language: info.trim().split(/\s/)[0] ?? '' };
}

export function endsFence(line: string, { mark }: FenceStart): boolean {
  const [, found] = /^ {0,3}(`{3,}|~{3,})[ \t]*$/.exec(line) ?? [];
  return found?.[0] === mark[0] && (found?.length ?? 0) >= mark.length;
}

export function markerOf(line: string): Marker | undefined {
  if (isRule(line)) return undefined;
  const [, before, sign, space] = /^( {0,3})([-*+]|\d{1,9}[.)])([ \t]+|$)/.exec(line) ?? [];
  if (before === undefined || sign === undefined || space === undefined) return undefined;
  const text = line.slice(before.length + sign.length + space.length);
  const width = text === '' || space.length > 4 ? 1 : space.length;
  const offset = before.length + sign.length + width;
  const start = sign.length > 1 ? Number.parseInt(sign, 10) : undefined;
  return { type: sign.at(-1) ?? '', offset, start, text };
}

/** Whether a line begins a block that ends the paragraph before it. */
export function interrupts(line: string): boolean {
  if (isRule(line) || isHeading(line) || QUOTE.test(line) || fenceStart(line) !== undefined) return true;
  const marker = markerOf(line);
  return marker !== undefined && marker.text !== '' && (marker.start ?? 1) === 1;
}

/** Whether a line may stand between the head of a table and its rows. */
export function isTableRule(line: string): boolean {
  return /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/.test(line) && /[|:]/.test(line);
}
