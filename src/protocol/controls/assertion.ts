import { LdapError } from '../../ldap/ldap-error.js';
import type { Filter } from '../../ldap/ldap-types.js';
import { decodeFilter } from '../decode-filter.js';
import { defaultLimits } from '../limits.js';
import { Reader } from '../reader.js';

/** Decodes the value of the assertion control (RFC 4528 §3), a filter. Throws LdapError `protocolError`. */
export function decodeAssertion(value: Buffer | undefined): Filter {
  try {
    // The values of a filter are views, and the control outlives the message.
    const reader = new Reader(Buffer.from(value ?? ''), 0, value?.length ?? 0);
    const filter = decodeFilter(reader, defaultLimits);
    if (reader.at < reader.end) throw reader.error('bytes follow the filter');
    return filter;
  } catch (cause) {
    if (!(cause instanceof LdapError)) throw cause;
    throw new LdapError('protocolError', `assertion control: ${cause.message}`, { cause });
  }
}
