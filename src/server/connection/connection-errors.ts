import { LdapError } from '../../ldap/ldap-error.js';

export function messageIdInUseError(id: number): LdapError {
  return new LdapError('protocolError', `messageID ${id} is in use`);
}

/** The bind of the session is no longer valid. */
export class BindInvalidError extends Error {
  constructor() {
    super('the entry that this connection is bound as was deleted or its password changed; bind again');
  }
}

/** The client sent clear text after StartTLS. */
export class PlaintextError extends Error {
  constructor() {
    super('StartTLS: nothing may be sent before the handshake');
  }
}
