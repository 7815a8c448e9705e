import type { Filter } from '../../src/ldap/ldap-types.js';
import type { Control, Request, RequestMessage, Response, ResponseMessage } from '../../src/protocol/ldap-messages.js';

/** Every message, with every optional part present and absent. */

const b = Buffer.from;
const dn = 'uid=fred,ou=people,dc=example';
const hardDn = 'cn=Jürgen „X“ 日本,dc=example';

const filters: Filter[] = [
  { type: 'present', attribute: 'objectClass' },
  { type: 'equal', attribute: 'uid', value: b('fred') },
  { type: 'greaterOrEqual', attribute: 'uidNumber', value: b('1000') },
  { type: 'lessOrEqual', attribute: 'modifyTimestamp', value: b('20240101000000Z') },
  { type: 'approx', attribute: 'sn', value: b('Smyth') },
  { type: 'substring', attribute: 'cn', initial: b('a'), any: [b('b'), b('c')], final: b('d') },
  { type: 'substring', attribute: 'cn;lang-de', initial: undefined, any: [b('\0*')], final: undefined },
  { type: 'extensible', rule: '2.5.13.2', attribute: 'cn', value: b('x'), dnAttributes: true },
  { type: 'extensible', rule: undefined, attribute: 'cn', value: b('x'), dnAttributes: false },
  { type: 'extensible', rule: 'caseExactMatch', attribute: undefined, value: b([0, 255]), dnAttributes: false },
  { type: 'and', filters: [] },
  { type: 'or', filters: [] },
];
const everyFilter: Filter = { type: 'and', filters: [...filters, { type: 'not', filter: { type: 'or', filters } }] };

const search = { op: 'search', deref: 'never', sizeLimit: 0, timeLimit: 0, typesOnly: false, attributes: [] } as const;

const requests: Request[] = [
  { op: 'bind', version: 3, name: '', authentication: { method: 'simple', password: b('') } },
  { op: 'bind', version: 3, name: dn, authentication: { method: 'simple', password: b('sécret') } },
  {
    op: 'bind',
    version: 2,
    name: '',
    authentication: { method: 'sasl', mechanism: 'EXTERNAL', credentials: undefined },
  },
  {
    op: 'bind',
    version: 3,
    name: '',
    authentication: { method: 'sasl', mechanism: 'PLAIN', credentials: b('\0a\0b') },
  },
  { op: 'unbind' },
  { ...search, base: dn, scope: 'base', filter: everyFilter },
  { ...search, base: '', scope: 'one', filter: filters[0]!, attributes: ['*', '+', '1.1', 'cn;lang-de', '@person'] },
  {
    op: 'search',
    base: hardDn,
    scope: 'sub',
    deref: 'always',
    sizeLimit: 0x7fffffff,
    timeLimit: 300,
    typesOnly: true,
    filter: filters[1]!,
    attributes: ['cn'],
  },
  { ...search, base: dn, scope: 'subordinate', deref: 'finding', filter: filters[4]! },
  { ...search, base: dn, scope: 'sub', deref: 'searching', filter: filters[5]! },
  { op: 'modify', dn, changes: [] },
  {
    op: 'modify',
    dn,
    changes: (['add', 'delete', 'replace', 'increment'] as const).map((operation, i) => ({
      operation,
      attribute: { type: `a${i}`, values: Array.from({ length: i }, (_, n) => b(`v${n}`)) },
    })),
  },
  {
    op: 'add',
    dn: hardDn,
    attributes: [
      { type: 'objectClass', values: [b('top'), b('person')] },
      { type: 'description', values: [b(''), Buffer.alloc(300, 7)] },
    ],
  },
  { op: 'delete', dn },
  { op: 'delete', dn: '' },
  { op: 'modifyDN', dn, newRdn: 'uid=f', deleteOldRdn: true, newSuperior: undefined },
  { op: 'modifyDN', dn, newRdn: 'uid=f', deleteOldRdn: false, newSuperior: '' },
  { op: 'modifyDN', dn, newRdn: 'uid=f', deleteOldRdn: false, newSuperior: 'dc=example' },
  { op: 'compare', dn, attribute: 'sn', value: b('Flint') },
  { op: 'abandon', target: 0x7fffffff },
  { op: 'extended', oid: '1.3.6.1.4.1.1466.20037', value: undefined },
  { op: 'extended', oid: '1.3.6.1.4.1.4203.1.11.1', value: b([0x30, 0]) },
];

const controls: Control[] = [
  { oid: '2.16.840.1.113730.3.4.2', critical: true, value: undefined },
  { oid: '1.2.840.113556.1.4.319', critical: false, value: b([0x30, 5, 2, 1, 100, 4, 0]) },
  { oid: '1.2', critical: true, value: b('') },
];

const ids = [1, 127, 128, 255, 256, 32767, 32768, 65536, 0x7fffff, 0x800000, 0x7fffffff];

export const requestMessages: RequestMessage[] = requests.flatMap((request, i) => [
  { id: ids[i % ids.length]!, request, controls: [] },
  { id: ids[(i + 1) % ids.length]!, request, controls: controls.slice(i % 2) },
]);

const ok = { code: 0, matchedDN: '', message: '' };
const refused = { code: 32, matchedDN: hardDn, message: 'no such entry: „x“' };
const referral = { code: 10, matchedDN: '', message: '', referrals: ['ldap://a/', `ldap://b/${'x'.repeat(200)}`] };

const responses: Response[] = [
  { op: 'bindResponse', ...ok, serverCredentials: undefined },
  { op: 'bindResponse', ...ok, code: 14, serverCredentials: b('challenge') },
  { op: 'searchEntry', dn: '', attributes: [] },
  {
    op: 'searchEntry',
    dn: hardDn,
    attributes: [
      { type: 'cn', values: [b('a'), b('ü'), b('')] },
      { type: 'jpegPhoto;binary', values: [Buffer.alloc(70_000, 1)] },
      { type: 'typesOnly', values: [] },
      { type: 'description', values: [Buffer.alloc(100, 2), Buffer.alloc(150, 3)] },
    ],
  },
  { op: 'searchReference', urls: ['ldap://host/dc=example??sub'] },
  ...(
    ['searchDone', 'modifyResponse', 'addResponse', 'deleteResponse', 'modifyDNResponse', 'compareResponse'] as const
  ).flatMap((op) => [ok, refused, referral].map((result) => ({ op, ...result }))),
  { op: 'extendedResponse', ...ok, oid: undefined, value: undefined },
  { op: 'extendedResponse', ...referral, oid: '1.3.6.1.4.1.1466.20036', value: b('dn:uid=fred') },
  { op: 'intermediate', oid: undefined, value: undefined },
  { op: 'intermediate', oid: '1.3.6.1.4.1.4203.1.9.1.4', value: b('x') },
];

export const responseMessages: ResponseMessage[] = responses.flatMap((response, i) => [
  { id: ids[i % ids.length]!, response },
  { id: 0, response, controls: controls.slice(i % 3) },
]);
