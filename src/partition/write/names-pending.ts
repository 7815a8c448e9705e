import { LdapError } from '../../ldap/ldap-error.js';

/** A write depends on names that have changed. `write` settles them, so that references follow, and tries again. */
export class NamesPending extends LdapError {
  constructor() {
    super('busy', 'references to entries that were renamed or deleted are being brought up to date; try again');
  }
}
