import type { DerefAliases, Modification, Scope } from '../ldap/ldap-types.js';
import type { Request, Response } from './ldap-messages.js';

/** BER identifier octets and enumerations of RFC 4511. Encoder and decoder share the tables. */

export const BOOLEAN = 0x01;
export const INTEGER = 0x02;
export const OCTET_STRING = 0x04;
export const ENUMERATED = 0x0a;
export const SEQUENCE = 0x30;
export const SET = 0x31;

/** Context-specific tag `[n]`, primitive. */
export const contextTag = (n: number): number => 0x80 | n;
/** Context-specific tag `[n]`, constructed. */
export const constructedContextTag = (n: number): number => 0xa0 | n;

/** `controls [0]` of an LDAPMessage (RFC 4511 §4.1.1). */
export const CONTROLS = 0xa0;
/** `referral [3]` of an LDAPResult (RFC 4511 §4.1.9). */
export const REFERRAL = 0xa3;

/** Identifier octet of each operation (protocolOp, RFC 4511 §4.1.1). */
export const opTags = {
  bind: 0x60,
  bindResponse: 0x61,
  unbind: 0x42,
  search: 0x63,
  searchEntry: 0x64,
  searchDone: 0x65,
  searchReference: 0x73,
  modify: 0x66,
  modifyResponse: 0x67,
  add: 0x68,
  addResponse: 0x69,
  delete: 0x4a,
  deleteResponse: 0x6b,
  modifyDN: 0x6c,
  modifyDNResponse: 0x6d,
  compare: 0x6e,
  compareResponse: 0x6f,
  abandon: 0x50,
  extended: 0x77,
  extendedResponse: 0x78,
  intermediate: 0x79,
} as const satisfies Record<Request['op'] | Response['op'], number>;

export type OpName = keyof typeof opTags;

/** Operations of responses that contain an LDAPResult. */
export type ResultOp = Extract<Response, { code: number }>['op'];

const opNames: (OpName | undefined)[] = [];
for (const [name, tag] of Object.entries(opTags)) opNames[tag] = name as OpName;

/** Returns the operation that the identifier octet belongs to; undefined if none. */
export function opOfTag(tag: number): OpName | undefined {
  return opNames[tag];
}

const responseOps: Record<Request['op'], ResultOp | undefined> = {
  bind: 'bindResponse',
  unbind: undefined,
  search: 'searchDone',
  modify: 'modifyResponse',
  add: 'addResponse',
  delete: 'deleteResponse',
  modifyDN: 'modifyDNResponse',
  compare: 'compareResponse',
  abandon: undefined,
  extended: 'extendedResponse',
};

/** Returns the response that ends an operation; undefined for unbind and abandon, which have no response. */
export function responseOp(op: Request['op']): ResultOp | undefined {
  return responseOps[op];
}

export function isRequestOp(op: OpName): op is Request['op'] {
  return op in responseOps;
}

/** Values of SearchRequest.scope (RFC 4511 §4.5.1.2; 3 is subordinateSubtree). */
export const scopes: readonly Scope[] = ['base', 'one', 'sub', 'subordinate'];
/** Values of SearchRequest.derefAliases (RFC 4511 §4.5.1.3). */
export const derefs: readonly DerefAliases[] = ['never', 'searching', 'finding', 'always'];
/** Values of the operation of a ModifyRequest (RFC 4511 §4.6, RFC 4525). */
export const changeOperations: readonly Modification['operation'][] = ['add', 'delete', 'replace', 'increment'];

/** Tags of filter choices (RFC 4511 §4.5.1). */
export const filterTags = {
  and: 0xa0,
  or: 0xa1,
  not: 0xa2,
  equal: 0xa3,
  substring: 0xa4,
  greaterOrEqual: 0xa5,
  lessOrEqual: 0xa6,
  present: 0x87,
  approx: 0xa8,
  extensible: 0xa9,
} as const;
