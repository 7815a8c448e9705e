import { readInteger, readOctets, readSequence, writeBytes, writeSequence } from '../asn1.js';
import { BOOLEAN, constructedContextTag, contextTag, ENUMERATED, OCTET_STRING } from '../tags.js';

/** Values of the controls and messages of content synchronization (RFC 4533 §2). */

/** Value of the Sync Request control. */
export interface SyncRequest {
  /** Whether changes are sent as they happen after the refresh (refreshAndPersist). */
  readonly isPersistent: boolean;
  /** State of the client's copy; '' if it has none. */
  readonly cookie: string;
}

const MODE = { refreshOnly: 1, refreshAndPersist: 3 } as const;
const MAX_VALUE = 8 * 1024;

/** Decodes the value. Throws LdapError `protocolError`. The hint that a reload is welcome has no effect. */
export function decodeSyncRequest(value: Buffer | undefined): SyncRequest {
  const label = 'sync request control';
  const elements = readSequence(value, label, MAX_VALUE);
  // Modes other than these two are reserved (RFC 4533 §2.2); they are served as refreshOnly.
  const mode = readInteger(elements[0], label, MODE.refreshOnly, MODE.refreshAndPersist);
  const hasCookie = elements[1]?.idBlock.tagNumber === OCTET_STRING;
  const cookie = hasCookie ? readOctets(elements[1], label).toString('latin1') : '';
  return { isPersistent: mode === MODE.refreshAndPersist, cookie };
}

export type SyncState = 'present' | 'add' | 'modify' | 'delete';
const STATES: readonly SyncState[] = ['present', 'add', 'modify', 'delete'];

/** Encodes the value of the Sync State control of an entry. `id`: entryUUID. */
export function encodeSyncState(state: SyncState, id: Buffer): Buffer {
  return writeSequence((writer) => {
    writer.integer(ENUMERATED, STATES.indexOf(state));
    writer.octetString(OCTET_STRING, id);
  });
}

/** Encodes the value of the Sync Done control. `refreshDeletes`: whether entries that were not sent are unchanged. */
export function encodeSyncDone(cookie: string, refreshDeletes: boolean): Buffer {
  return writeSequence((writer) => {
    writer.text(OCTET_STRING, cookie);
    if (refreshDeletes) writer.boolean(BOOLEAN, true);
  });
}

/** Encodes the value of a Sync Info message: a new cookie, or the end of a refresh by deletes or a present phase. */
export function encodeSyncInfo(kind: 'newcookie' | 'refreshDelete' | 'refreshPresent', cookie: string): Buffer {
  return writeBytes((writer) => {
    if (kind === 'newcookie') return writer.text(contextTag(0), cookie);
    const element = writer.begin(constructedContextTag(kind === 'refreshDelete' ? 1 : 2));
    writer.text(OCTET_STRING, cookie);
    writer.end(element);
  });
}
