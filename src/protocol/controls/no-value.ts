import { LdapError } from '../../ldap/ldap-error.js';
import type { Control } from '../ldap-messages.js';

/** Refuses a value of a control that is defined without a value, such as ManageDsaIT (RFC 3296 §3). */
export function expectNoValue(control: Control, name: string): void {
  if (control.value === undefined || control.value.length === 0) return;
  throw new LdapError('protocolError', `${name} control: it has no value, ${control.value.length} bytes were sent`);
}
