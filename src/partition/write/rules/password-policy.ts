import { LdapError } from '../../../ldap/ldap-error.js';
import type { AttributeType } from '../../../schema/schema-types.js';
import type { Draft } from '../../model/draft.js';
import { changedTypes, type Rule } from '../context.js';

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
