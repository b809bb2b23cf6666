/** Page: the one connection of the page to the extension. */

import type { FromPage } from '../chat_messages.ts';

type Api = { postMessage(message: FromPage): void; getState(): Kept | undefined; setState(state: Kept): void };
declare function acquireVsCodeApi(): Api;

/** What the page keeps for itself when it is thrown away. */
export type Kept = {
  draft: string;
  scrollTop: number;
  atEnd: boolean;
  words?: Record<string, string>;
  /** The last message that was taken for good. */
  took?: number;
};

const api = acquireVsCodeApi();

export function post(message: FromPage): void {
  api.postMessage(message);
}

export function run(command: string, ...args: unknown[]): void {
  post({ kind: 'run', command, args });
}

export function kept(): Kept {
  return api.getState() ?? { draft: '', scrollTop: 0, atEnd: true };
}

export function keep(changes: Partial<Kept>): void {
  api.setState({ ...kept(), ...changes });
}

/** Take a message once, although the page before may have been thrown away before it could say so. */
export function takeOnce(id: number, take: () => void): void {
  if (id > (kept().took ?? 0)) {
    take();
    keep({ took: id });
  }
  post({ kind: 'took', id });
}
