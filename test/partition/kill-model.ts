import { largePointer } from '../../src/partition/model/entry-cells.js';
import { LARGE_VALUE } from '../../src/partition/model/thresholds.js';
import { SUFFIX } from './fixture.js';

export const WRITERS = 8;
export const SHARED = `ou=shared,${SUFFIX}`;
/** The entry whose uidNumber all writers increment. */
export const COUNTER = `cn=counter,${SUFFIX}`;

export function containerOf(writer: number, shared: boolean): string {
  return shared ? SHARED : `ou=w${writer},${SUFFIX}`;
}

/** An entry of one writer. A `text` without an end stands in description and in mail alike. */
export interface Written {
  readonly name: string;
  readonly text: string;
  readonly shared: boolean;
}

/** An entry at one moment: its DN and its description, a long one as it stands in the row. */
export function stateOf(dn: string, description: string): string {
  const bytes = Buffer.from(description);
  return `${dn} ${(bytes.length > LARGE_VALUE ? largePointer(bytes) : bytes).toString('latin1')}`;
}

/** A writer's entries by entryUUID. */
export type Entries = Map<string, Written>;

export type Operation =
  | { readonly op: 'add'; readonly uuid: string; readonly name: string; readonly text: string }
  | { readonly op: 'set'; readonly uuid: string; readonly text: string }
  | { readonly op: 'rename'; readonly uuid: string; readonly name: string }
  | { readonly op: 'move'; readonly uuid: string; readonly shared: boolean }
  | { readonly op: 'delete' | 'restore'; readonly uuid: string }
  | { readonly op: 'count' };

/** A line of a writer: what it begins, or that what it began is acknowledged. */
export interface Told {
  readonly writer: number;
  readonly begins?: Operation;
}

/** Deleted entries as they stood, so that a restore can be followed. */
const gone = new Map<string, Written>();

export function apply(entries: Entries, operation: Operation): void {
  if (operation.op === 'count') return;
  const { uuid } = operation;
  const entry = operation.op === 'restore' ? gone.get(uuid)! : entries.get(uuid)!;
  switch (operation.op) {
    case 'add':
      entries.set(uuid, { name: operation.name, text: operation.text, shared: false });
      break;
    case 'set':
      entries.set(uuid, { ...entry, text: operation.text });
      break;
    case 'rename':
      entries.set(uuid, { ...entry, name: operation.name });
      break;
    case 'move':
      entries.set(uuid, { ...entry, shared: operation.shared });
      break;
    case 'delete':
      gone.set(uuid, entry);
      entries.delete(uuid);
      break;
    case 'restore':
      entries.set(uuid, entry);
      break;
  }
}
