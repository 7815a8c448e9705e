import { LdapError } from '../../ldap/ldap-error.js';

/** Thrown by a write that depends on a name with a pending change. `write` waits until it is settled, then retries. */
export class PendingNamesError extends LdapError {
  constructor() {
    super('busy', 'references to entries that were renamed or deleted are being brought up to date; try again');
  }
}
