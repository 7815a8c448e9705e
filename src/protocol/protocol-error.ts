import { LdapError, type ResultName } from '../ldap/ldap-error.js';
import type { Request } from './ldap-messages.js';

/**
 * A message that cannot be decoded (RFC 4511 §4.1.1).
 *
 * With `fatal` the bytes are not an LDAP message: nothing after them can be trusted, so the peer gets an answer or the
 * Notice of Disconnection and the connection ends. Without it the encoding is sound and only this request is refused.
 */
export class ProtocolError extends LdapError {
  /** Byte offset from the first byte of the message. */
  readonly offset: number;
  readonly fatal: boolean;
  /** The request's messageID, once it was read. */
  messageId: number | undefined;
  /** The request's operation, once it was recognized: `responseOp(op)` is what answers it. */
  op: Request['op'] | undefined;
  /** What the bytes are instead, where that is plain to see. */
  foreign: string | undefined;

  constructor(message: string, offset: number, fatal = true, result: ResultName = 'protocolError') {
    super(result, `${message} (byte ${offset} of the message)`);
    this.offset = offset;
    this.fatal = fatal;
  }
}
