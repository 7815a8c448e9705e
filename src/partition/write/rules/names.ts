import { LdapError } from '../../../ldap/ldap-error.js';
import type { Rule } from '../context.js';

/** Requires that attributes in RDNs have an equality rule: otherwise names cannot be compared. */
export const NAMES: Rule = {
  name: 'names',

  checkRequest(_, { rdn }) {
    const type = rdn?.avas.find((ava) => !ava.type.equality)?.type;
    if (!type) return undefined;
    return new LdapError('namingViolation', `attribute '${type.name}' has no equality rule and cannot name an entry`);
  },
};
