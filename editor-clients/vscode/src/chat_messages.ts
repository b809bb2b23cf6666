/** Chat messages: what the chat's page and the extension say to each other. */

import type { Connection } from './client.ts';
import type { ContextItem, Decision, Status, StreamValue } from './protocol.ts';
import type { SessionView } from './view.ts';

/** Something that goes with the next message: a file, or a part of one. */
export type Chip = { label: string; detail: string; item: ContextItem };

/** What stands around the session. */
export type Frame = {
  connection: Connection;
  hasKey: boolean;
  needsKey: boolean;
  trusted: boolean;
  folder?: string;
  chips: Chip[];
  /** What the active editor shows, offered as context. */
  suggested?: Chip;
};

export type How = 'followup' | 'steer' | 'inject';

/** A message with an id is told until a page has taken it: one that is told may be thrown away before it listens. */
export type ToPage =
  | { kind: 'view'; view: SessionView; frame: Frame; session?: string; status?: Status }
  | { kind: 'values'; values: StreamValue[] }
  | { kind: 'status'; status?: Status }
  | { kind: 'frame'; frame: Frame }
  | { kind: 'files'; query: string; files: Chip[] }
  | { kind: 'sent'; id: number; text: string; error?: { code?: string; text: string } }
  | { kind: 'draft'; id: number; text: string }
  /** Decide on the permission that is shown; without a decision it is only shown. */
  | { kind: 'decide'; decision?: Decision }
  | { kind: 'focus' };

export type FromPage =
  | { kind: 'ready' }
  | { kind: 'took'; id: number }
  | { kind: 'focused'; focused: boolean }
  | { kind: 'send'; how: How; text: string }
  | { kind: 'run'; command: string; args: unknown[] }
  | { kind: 'approve'; approval: string; decision: Decision; comment?: string }
  | { kind: 'answer'; question: string; answer: string }
  | { kind: 'editWaiting'; message: string; text: string }
  | { kind: 'removeWaiting'; message: string }
  | { kind: 'open'; path: string; line?: number }
  | { kind: 'link'; href: string }
  | { kind: 'copy'; text: string }
  | { kind: 'findFiles'; query: string }
  | { kind: 'addChip'; chip: Chip }
  | { kind: 'removeChip'; index: number };
