import { expectEnd, readOctets, readSequence } from '../asn1.js';

/** Value of the session tracking control (draft-wahl-ldap-session-03 §2): the user on whose behalf a client asks. */
export interface SessionTracking {
  readonly sourceAddress: string;
  readonly sourceName: string;
  readonly identifier: string;
}

/** Somewhat more than the longest fields of the draft need: 128, 65536, 1024 and 65536 bytes. */
const MAX_VALUE = 134 * 1024;
const MAX_BYTES = 256;

/** Texts are cut to 256 bytes. Throws LdapError `protocolError`. */
export function decodeSessionTracking(value: Buffer | undefined): SessionTracking {
  const what = 'session tracking control';
  const elements = readSequence(value, what, MAX_VALUE);
  expectEnd(elements, 4, what);
  const [sourceAddress, sourceName, , identifier] = [0, 1, 2, 3].map((i) =>
    readOctets(elements[i], what).toString('utf8', 0, MAX_BYTES),
  );
  return { sourceAddress: sourceAddress!, sourceName: sourceName!, identifier: identifier! };
}
