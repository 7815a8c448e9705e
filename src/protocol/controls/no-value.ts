import { LdapError } from '../../ldap/ldap-error.js';
import type { Control } from '../ldap-messages.js';

/** For controls defined without a value (ManageDsaIT, RFC 3296 §3): one that has a value is a `protocolError`. */
export function expectNoValue(control: Control, name: string): void {
  if (control.value === undefined || control.value.length === 0) return;
  throw new LdapError('protocolError', `${name} control: it has no value, ${control.value.length} bytes were sent`);
}
