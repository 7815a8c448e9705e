import { LdapError } from '../../../ldap/ldap-error.js';
import { ancestorOf } from '../../../schema/dn.js';
import type { Dn } from '../../../schema/schema-types.js';
import { secretNameError, tooManyPasswordsError } from '../../model/secrets.js';
import { type Change, changedTypes, type Rule, type WriteContext } from '../context.js';

/**
 * Refuses secrets in RDNs, too many passwords, and passwords of the administrator from anybody else. (The rule `SCHEMA`
 * refuses options on secrets.)
 */
export const SECRETS: Rule = {
  name: 'secrets',

  checkRequest(_, { rdn }) {
    return rdn && secretNameError(rdn);
  },

  checkChange(context, change) {
    const { before, after, op, actor } = change;
    const refuse = actor.access?.version === undefined ? undefined : administratorsEntryError(context, change);
    if (refuse) return { refuse };
    if (!after || op === 'restore') return undefined;
    for (const attribute of after.attributes) {
      const { description, values } = attribute;
      const refuse = tooManyPasswordsError(description.type, values.length);
      if (refuse && before?.draft.get(description) !== attribute) return { refuse };
    }
    return undefined;
  },
};

/**
 * Returns the error for a change that could make a password of somebody else one of the administrator: passwords of the
 * entry with the administrator's DN bind as the administrator. Only actors under access rules are checked.
 */
function administratorsEntryError({ schema, shared }: WriteContext, change: Change): LdapError | undefined {
  const { from, to } = change.place;
  const isRename = change.op === 'rename';
  if (!to || (!isRename && ![...changedTypes(change)].some(({ secret }) => secret))) return undefined;
  const admin = schema.parseDn(shared.settings.adminDn);
  const name = schema.parseDnBytes(to.dn);
  if (isRename) {
    if (!isAtOrAbove(name, admin) || name.norm.equals(schema.parseDnBytes(from!.dn).norm)) return undefined;
    return onlyAdministrator("give an entry the administrator's DN, or a DN above it");
  }
  if (!name.norm.equals(admin.norm)) return undefined;
  return onlyAdministrator("write passwords of the entry with the administrator's DN");
}

function isAtOrAbove(dn: Dn, other: Dn): boolean {
  const depth = other.rdns.length - dn.rdns.length;
  return depth >= 0 && ancestorOf(other, depth).norm.equals(dn.norm);
}

function onlyAdministrator(action: string): LdapError {
  return new LdapError('insufficientAccessRights', `only the administrator may ${action}`);
}
