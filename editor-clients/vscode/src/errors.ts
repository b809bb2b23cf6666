/** Errors: what users read of what went wrong, and how words of others are read in what the editor itself shows. */

export const NEEDS_FOLDER = 'open a folder first: the agent works on one';

/** The user left a choice that was theirs: nothing is done, and nothing is wrong. */
export class Left extends Error {}

/** An answer of the server that says what the user can mend; `code` is stable. */
export function errorCode(error: unknown): string | undefined {
  return (error as { data?: { code?: string } } | undefined)?.data?.code;
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Words in which a notification finds no link: it makes one of `[words](command:…)`, which would run it. */
export function unlinked(text: string): string {
  return text.replaceAll('](', '] (');
}

/** Words in which a label finds no icon: it would show one in the place of `$(name)`, or nothing. */
export function withoutIcons(text: string): string {
  return text.replaceAll('$(', '\\$(');
}
