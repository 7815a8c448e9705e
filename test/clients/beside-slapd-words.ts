import { parseFilter } from '../../src/ldap/filter-text.js';
import type { Modification } from '../../src/ldap/ldap-types.js';
import type { Request } from '../../src/protocol/ldap-messages.js';
import { ExtendedOid } from '../../src/protocol/oids.js';
import { encodePasswordModify } from '../protocol/client-values.js';
import { attributes } from '../server/directory.js';
import { searchRequest, simpleBind } from '../server/raw-client.js';
import { dnOf, type Entries, policyDn, type Sender } from './side-by-side.js';

/** The intended differences from slapd that requests show: their titles in docs/passwords.md. */
export const DIFFERENCES = {
  reset: 'Resets',
  pwdReset: '`pwdReset`',
  told: 'Refusals until the change',
  owners: 'Changes by others',
  oldPassword: 'A wrong old password',
  codes: 'Other codes',
  noPolicy: 'Without a policy',
  names: 'Names in passwords',
  hashes: 'Hashes from users',
  generated: 'Generated passwords',
  length: '`pwdMinLength`, `pwdMaxLength`',
  several: 'Several passwords',
  none: 'No password',
  compare: 'Compare',
  session: 'Wrong passwords in a session',
  lockout: 'Without `pwdLockout`',
  failures: 'Failures that are over',
  unlock: 'Unlocking',
  added: '`pwdChangedTime` of an add',
  imported: 'What an import brings',
  filters: 'Filters',
} as const;

export type Difference = keyof typeof DIFFERENCES;

export interface Asked {
  readonly text: string;
  readonly sender: Sender;
  readonly request: Request;
  /** The account whose operational attributes are compared behind the answer. */
  readonly uid: string;
  readonly difference?: Difference;
}

export interface Group extends Entries {
  readonly title: string;
  readonly requests: readonly Asked[];
}

export const DAY = 86_400;

const START = Date.now();

/** Time in the syntax of operational attributes, so many seconds before the start of the tests. */
export function ago(seconds: number): string {
  return `${new Date(START - seconds * 1000).toISOString().replace(/[-:T]|\..*/g, '')}Z`;
}

const nameOf = (sender: Sender): string => (typeof sender === 'string' ? sender : `${sender[0]} (${sender[1]})`);

export const bind = (uid: string, password: string): Asked => ({
  text: `bind as ${uid} by "${password}"`,
  sender: 'anonymous',
  request: simpleBind(dnOf(uid), password),
  uid,
});

export const modify = (sender: Sender, uid: string, ...changes: Modification[]): Asked => {
  const described = changes.map(
    ({ operation, attribute: { type, values } }) => `${operation} ${type} ${values.join(' ')}`,
  );
  const request: Request = { op: 'modify', dn: dnOf(uid), changes };
  return { text: `${nameOf(sender)} modifies ${uid}: ${described.join('; ')}`, sender, request, uid };
};

export const own = (uid: string, password: string, ...changes: Modification[]): Asked =>
  modify([uid, password], uid, ...changes);

export const change = (operation: Modification['operation'], type: string, ...values: string[]): Modification => ({
  operation,
  attribute: { type, values: values.map((value) => Buffer.from(value)) },
});

export const replace = (...values: string[]): Modification => change('replace', 'userPassword', ...values);
export const exchange = (from: string, to: string): Modification[] => [
  change('delete', 'userPassword', from),
  change('add', 'userPassword', to),
];

/** Password Modify (RFC 3062). `user`: the target, unless it is the sender. */
export const passwd = (
  sender: Sender,
  uid: string,
  from: string | undefined,
  to: string | undefined,
  names = true,
): Asked => {
  const value = encodePasswordModify({
    userIdentity: names ? dnOf(uid) : undefined,
    oldPassword: from === undefined ? undefined : Buffer.from(from),
    newPassword: to === undefined ? undefined : Buffer.from(to),
  });
  const text = `${nameOf(sender)} asks for password modify of ${uid} from "${from}" to "${to}"${names ? '' : ', unnamed'}`;
  return { text, sender, request: { op: 'extended', oid: ExtendedOid.passwordModify, value }, uid };
};

export const add = (sender: Sender, uid: string, values: Readonly<Record<string, string | string[]>>): Asked => {
  const all = { objectClass: 'inetOrgPerson', uid, cn: 'Anna Lindqvist', sn: 'Lindqvist', ...values };
  const request: Request = { op: 'add', dn: dnOf(uid), attributes: attributes(all) };
  return { text: `${nameOf(sender)} adds ${uid} with ${JSON.stringify(values)}`, sender, request, uid };
};

export const compare = (sender: Sender, uid: string, password: string): Asked => ({
  text: `${nameOf(sender)} compares userPassword of ${uid} with "${password}"`,
  sender,
  request: { op: 'compare', dn: dnOf(uid), attribute: 'userPassword', value: Buffer.from(password) },
  uid,
});

export const read = (sender: Sender, uid: string): Asked => ({
  text: `${nameOf(sender)} reads ${uid}`,
  sender,
  request: searchRequest(dnOf(uid)),
  uid,
});

/** How many entries a filter finds of one account. */
export const find = (uid: string, filter: string): Asked => ({
  text: `a search for ${filter} at ${uid}`,
  sender: 'admin',
  request: searchRequest(dnOf(uid), { filter: parseFilter(filter) }),
  uid,
});

export const whoAmI = (uid: string, password: string): Asked => ({
  text: `${uid} asks who it is`,
  sender: [uid, password],
  request: { op: 'extended', oid: ExtendedOid.whoAmI, value: undefined },
  uid,
});

/** The same request, which is answered otherwise than by slapd, on purpose. */
export const differs = (difference: Difference, ...requests: Asked[]): Asked[] =>
  requests.map((asked) => ({ ...asked, difference }));

export const times = (count: number, asked: Asked): Asked[] => Array(count).fill(asked);

export const under = (policy: string, more: Record<string, string | string[]> = {}) => ({
  userPassword: 'right',
  pwdPolicySubentry: policyDn(policy),
  ...more,
});
