import { LdapError, type ResultName } from '../ldap/ldap-error.js';
import type { Request } from './ldap-messages.js';

/**
 * A message that cannot be decoded (RFC 4511 §4.1.1).
 * A fatal error means that the bytes are not an LDAP message. The bytes that follow cannot be trusted either, so the
 * server sends a response or the Notice of Disconnection and closes the connection. After a non-fatal error the message
 * boundaries are still known, and the server refuses only this request.
 */
export class ProtocolError extends LdapError {
  /** Offset in bytes from the beginning of the message. */
  readonly offset: number;
  readonly fatal: boolean;
  /** messageID of the request, if decoded. */
  messageId: number | undefined;
  /** Operation of the request, if recognized. `responseOp(op)` is the matching response. */
  op: Request['op'] | undefined;
  /** Name of another protocol that the bytes belong to, if recognized. */
  foreign: string | undefined;

  constructor(message: string, offset: number, isFatal = true, result: ResultName = 'protocolError') {
    super(result, `${message} (byte ${offset} of the message)`);
    this.offset = offset;
    this.fatal = isFatal;
  }
}
