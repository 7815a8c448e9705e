import { LdapError } from '../../../ldap/ldap-error.js';
import { ancestorOf } from '../../../schema/dn.js';
import type { AttributeType, Dn } from '../../../schema/schema-types.js';
import type { Draft } from '../../model/draft.js';
import { secretNameError, tooManyPasswordsError } from '../../model/secrets.js';
import { type Change, changedTypes, type Rule, type WriteContext } from '../context.js';

/** The greatest values of numbers, and of all others, as in slapd: in seconds 68 years. */
const GREATEST: Readonly<Record<string, number>> = { pwdCheckQuality: 2, rowanPwdMinScore: 4, others: 2_147_483_647 };

/** Of each pair the first is at most the second, unless that is 0, which means no limit. */
const PAIRS = [
  ['pwdMinLength', 'pwdMaxLength'],
  ['pwdMinAge', 'pwdMaxAge'],
  ['pwdMinDelay', 'pwdMaxDelay'],
] as const;

const INTEGER_SYNTAX = '1.3.6.1.4.1.1466.115.121.1.27';

/** Refuses numbers that make no sense in an entry of class pwdPolicy (draft-behera-ldap-password-policy-10 §5.2). */
export const PASSWORD_POLICY: Rule = {
  name: 'password policy',

  checkChange(_, change) {
    const { after, op, isSettlement } = change;
    if ((op !== 'add' && op !== 'modify') || isSettlement || !after?.firstValue('pwdAttribute')) return undefined;
    const problem = problemOf(after, changedTypes(change));
    return problem === undefined ? undefined : { refuse: new LdapError('constraintViolation', problem) };
  },
};

/** Of a policy that was one before, only changed numbers are judged, so that they can be mended one by one. */
function problemOf(policy: Draft, changed: ReadonlySet<AttributeType>): string | undefined {
  const number = (name: string): number => Number(policy.valueText(name) ?? 0);
  const isNew = [...changed].some(({ name }) => name === 'pwdAttribute');
  const judged = isNew ? policy.attributes.map(({ description }) => description.type) : changed;
  const judgedNames: string[] = [];
  for (const { name, syntax } of judged) {
    if (syntax.oid !== INTEGER_SYNTAX || !/^(rowanP|p)wd/.test(name)) continue;
    judgedNames.push(name);
    const greatest = GREATEST[name] ?? GREATEST.others!;
    if (number(name) < 0 || number(name) > greatest)
      return `'${name}' of a password policy is a number from 0 to ${greatest}, not ${number(name)}`;
  }
  const pair = PAIRS.find(
    ([least, most]) =>
      number(most) > 0 && number(least) > number(most) && judgedNames.some((name) => name === least || name === most),
  );
  return pair && `'${pair[0]}' is ${number(pair[0])}, more than '${pair[1]}', which is ${number(pair[1])}; lower it`;
}

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
