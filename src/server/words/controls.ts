import { LdapError } from '../../ldap/ldap-error.js';
import type { Filter } from '../../ldap/ldap-types.js';
import { decodeAssertion } from '../../protocol/controls/assertion.js';
import { decodeEffectiveRights, type EffectiveRightsRequest } from '../../protocol/controls/effective-rights.js';
import { decodeMatchedValues } from '../../protocol/controls/matched-values.js';
import { expectNoValue } from '../../protocol/controls/no-value.js';
import { decodePagedResults, type PagedResults } from '../../protocol/controls/paged-results.js';
import { decodePersistentSearch, type PersistentSearch } from '../../protocol/controls/persistent-search.js';
import { decodeProxiedAuthorization } from '../../protocol/controls/proxied-authorization.js';
import { decodeReadEntry } from '../../protocol/controls/read-entry.js';
import { decodeSessionTracking, type SessionTracking } from '../../protocol/controls/session-tracking.js';
import { decodeSortRequest, type RequestedSortKey } from '../../protocol/controls/sort.js';
import { decodeSyncRequest, type SyncRequest } from '../../protocol/controls/sync.js';
import { decodeVirtualList, type VirtualListRequest } from '../../protocol/controls/virtual-list.js';
import { decodeTransactionSpecification } from '../../protocol/extended/transactions.js';
import type { Control, Request } from '../../protocol/ldap-messages.js';
import { ControlOid } from '../../protocol/oids.js';
import { generalizedTimeMs } from '../../schema/time.js';
import { printable } from './printable.js';

export interface RequestControls {
  /** ManageDsaIT (RFC 3296): referral and alias entries are treated as ordinary entries. */
  readonly manageDsaIT: boolean;
  /** Whether a delete deletes the entries below, too (draft-armijo-ldap-treedelete-02). */
  readonly treeDelete: boolean;
  /** The filter that values have to match to be returned (RFC 3876). */
  readonly matchedValues: Filter | undefined;
  /** Whether a search finds subentries alone, or all but subentries (RFC 3672 §3). */
  readonly subentries: boolean | undefined;
  /** Whether a search sends no references. */
  readonly domainScope: boolean;
  /** Whether a search finds deleted entries, too. */
  readonly showDeleted: { readonly isCritical: boolean } | undefined;
  /** Paged results (RFC 2696). */
  readonly paged: PagedResults | undefined;
  /** Server-side sort (RFC 2891). */
  readonly sort: { readonly keys: readonly RequestedSortKey[]; readonly isCritical: boolean } | undefined;
  /** A window of a sorted list (draft-ietf-ldapext-ldapv3-vlv-09). */
  readonly virtualList: VirtualListRequest | undefined;
  /** Whether responses have the password policy control (draft-behera-ldap-password-policy-10). */
  readonly passwordPolicy: boolean;
  /** Whether found entries have the rights of an identity. */
  readonly effectiveRights: EffectiveRightsRequest | undefined;
  /** Whether found entries have a control that tells whether a bind as the entry can succeed. */
  readonly accountUsability: boolean;
  /** For logs: the user on whose behalf the client asks. */
  readonly sessionTracking: SessionTracking | undefined;
  /** Content synchronization (RFC 4533). */
  readonly sync: SyncRequest | undefined;
  /** Changes as they come (draft-ietf-ldapext-psearch-03). */
  readonly persistentSearch: PersistentSearch | undefined;
  /** The moment, in milliseconds since 1970, as of which a search answers (docs/formats/as-of.md). */
  readonly asOf: number | undefined;
  /** The authzId that the operation runs as (RFC 4370); '': an anonymous client. */
  readonly proxiedAuthorization: string | undefined;
  /** The filter that the entry has to match (RFC 4528). */
  readonly assertion: Filter | undefined;
  /** The attributes of the entry before the write, or after it, that the response has (RFC 4527). */
  readonly preRead: readonly string[] | undefined;
  readonly postRead: readonly string[] | undefined;
  /** Whether a replica must not answer from its copy (RFC 6171). */
  readonly dontUseCopy: boolean;
  /** Whether a modify may add values that are there, and delete those that are absent. */
  readonly permissiveModify: boolean;
  /** Whether a write is only checked. */
  readonly noOp: boolean;
  /** Whether the administrator writes times and names of authors. */
  readonly relax: boolean;
  /** The identifier of the transaction that the operation belongs to (RFC 5805). */
  readonly transaction: string | undefined;
}

export const NO_CONTROLS: RequestControls = {
  manageDsaIT: false,
  treeDelete: false,
  matchedValues: undefined,
  subentries: undefined,
  domainScope: false,
  showDeleted: undefined,
  paged: undefined,
  sort: undefined,
  virtualList: undefined,
  passwordPolicy: false,
  effectiveRights: undefined,
  accountUsability: false,
  sessionTracking: undefined,
  sync: undefined,
  persistentSearch: undefined,
  asOf: undefined,
  proxiedAuthorization: undefined,
  assertion: undefined,
  preRead: undefined,
  postRead: undefined,
  dontUseCopy: false,
  permissiveModify: false,
  noOp: false,
  relax: false,
  transaction: undefined,
};

const EMPTY = Buffer.alloc(0);

type MutableControls = { -readonly [K in keyof RequestControls]: RequestControls[K] };

const WRITES: readonly Request['op'][] = ['add', 'modify', 'delete', 'modifyDN'];
const DATA_OPERATIONS: readonly Request['op'][] = ['search', 'compare', ...WRITES];

/** A control: the operations that it applies to, and what it means to them. */
interface ControlType {
  readonly ops: readonly Request['op'][];
  decode(control: Control, into: MutableControls): void;
}

/** A control without a value, which sets a field. `name`: for errors. */
function flag(
  ops: readonly Request['op'][],
  field: { [K in keyof RequestControls]: RequestControls[K] extends boolean ? K : never }[keyof RequestControls],
  name: string,
): ControlType {
  const decode = (control: Control, into: MutableControls): void => {
    expectNoValue(control, name);
    into[field] = true;
  };
  return { ops, decode };
}

/** A control with a value, which sets a field. */
function valued<K extends keyof RequestControls>(
  ops: readonly Request['op'][],
  field: K,
  decode: (value: Buffer | undefined, isCritical: boolean) => RequestControls[K],
): ControlType {
  return {
    ops,
    decode: ({ value, critical }, into: MutableControls) => {
      into[field] = decode(value, critical);
    },
  };
}

/** The keys are supportedControl in the root DSE. */
const CONTROLS = new Map<string, ControlType>([
  [ControlOid.manageDsaIT, flag(DATA_OPERATIONS, 'manageDsaIT', 'ManageDsaIT')],
  [ControlOid.matchedValues, valued(['search'], 'matchedValues', decodeMatchedValues)],
  [ControlOid.subentries, valued(['search'], 'subentries', decodeSubentries)],
  [ControlOid.domainScope, flag(['search'], 'domainScope', 'domain scope')],
  [ControlOid.showDeleted, valued(['search'], 'showDeleted', (_, isCritical) => ({ isCritical }))],
  [ControlOid.treeDelete, flag(['delete'], 'treeDelete', 'tree delete')],
  [ControlOid.pagedResults, valued(['search'], 'paged', decodePagedResults)],
  [ControlOid.sortRequest, valued(['search'], 'sort', decodeSort)],
  [ControlOid.virtualListRequest, valued(['search'], 'virtualList', decodeVirtualList)],
  [ControlOid.effectiveRights, valued(['search'], 'effectiveRights', decodeEffectiveRights)],
  [ControlOid.accountUsability, flag(['search'], 'accountUsability', 'account usability')],
  [ControlOid.syncRequest, valued(['search'], 'sync', decodeSyncRequest)],
  [ControlOid.persistentSearch, valued(['search'], 'persistentSearch', decodePersistentSearch)],
  [ControlOid.transaction, valued(WRITES, 'transaction', decodeTransactionSpecification)],
  [ControlOid.asOf, valued(['search'], 'asOf', decodeAsOf)],
  [ControlOid.assertion, valued(DATA_OPERATIONS, 'assertion', decodeAssertion)],
  [ControlOid.preRead, valued(['modify', 'delete', 'modifyDN'], 'preRead', decodeReadEntry)],
  [ControlOid.postRead, valued(['add', 'modify', 'modifyDN'], 'postRead', decodeReadEntry)],
  [ControlOid.dontUseCopy, flag(['search', 'compare'], 'dontUseCopy', "don't use copy")],
  [ControlOid.permissiveModify, flag(['modify'], 'permissiveModify', 'permissive modify')],
  [ControlOid.noOp, flag(WRITES, 'noOp', 'no-op')],
  [ControlOid.openLdapNoOp, flag(WRITES, 'noOp', 'no-op')],
  [ControlOid.relax, flag(['add', 'modify'], 'relax', 'relax rules')],
  [
    ControlOid.proxiedAuthorization,
    valued(['extended', ...DATA_OPERATIONS], 'proxiedAuthorization', decodeProxiedAuthorization),
  ],
  [ControlOid.passwordPolicy, flag(['bind', 'extended', ...DATA_OPERATIONS], 'passwordPolicy', 'password policy')],
  [
    ControlOid.sessionTracking,
    valued(['bind', 'unbind', 'abandon', 'extended', ...DATA_OPERATIONS], 'sessionTracking', decodeSessionTracking),
  ],
]);

export const SUPPORTED_CONTROLS: readonly string[] = [...CONTROLS.keys()];

/**
 * Decodes the controls of a request (RFC 4511 §4.1.11). A critical control that is unknown or does not apply to the
 * operation is `unavailableCriticalExtension`; a non-critical one is ignored. A repeated control or a malformed value
 * is `protocolError`.
 */
export function readControls(op: Request['op'], controls: readonly Control[]): RequestControls {
  if (controls.length === 0) return NO_CONTROLS;
  const decodedControls: MutableControls = { ...NO_CONTROLS };
  const seenOids = new Set<string>();
  for (const control of controls) {
    if (seenOids.has(control.oid))
      throw new LdapError('protocolError', `control ${printable(control.oid)} is given twice`);
    seenOids.add(control.oid);
    const type = CONTROLS.get(control.oid);
    if (type?.ops.includes(op)) type.decode(control, decodedControls);
    else if (control.critical) throw unavailable(control.oid, op);
  }
  return decodedControls;
}

function decodeSort(value: Buffer | undefined, isCritical: boolean): RequestControls['sort'] {
  return { keys: decodeSortRequest(value), isCritical };
}

/** Decodes a BOOLEAN. */
function decodeSubentries(value: Buffer | undefined): boolean {
  if (value?.length === 3 && value[0] === 1 && value[1] === 1) return value[2] !== 0;
  throw new LdapError('protocolError', 'the subentries control has no BOOLEAN');
}

function decodeAsOf(value: Buffer | undefined): number {
  const asOf = generalizedTimeMs(value ?? EMPTY);
  if (asOf === undefined) throw new LdapError('protocolError', 'the as-of control has no GeneralizedTime');
  return asOf;
}

function unavailable(oid: string, op: Request['op']): LdapError {
  const reason = CONTROLS.has(oid) ? `does not go with ${op}` : 'is not supported';
  return new LdapError('unavailableCriticalExtension', `critical control ${printable(oid)} ${reason}`);
}
