import { LdapError } from '../../ldap/ldap-error.js';

export function inUse(id: number): LdapError {
  return new LdapError('protocolError', `messageID ${id} is in use`);
}

/** What the session was bound with does not hold any more. */
export class SessionEnded extends Error {
  constructor() {
    super('the entry that this connection is bound as was deleted or its password changed; bind again');
  }
}

/** Bytes have come that were not sent under TLS. */
export class PlainBytes extends Error {
  constructor() {
    super('StartTLS: nothing may be sent before the handshake');
  }
}
