import { LdapError } from '../../ldap/ldap-error.js';
import { ancestorOf } from '../../schema/dn.js';
import type { Dn } from '../../schema/schema-types.js';
import type { Maybe, Reader } from '../../store/contract.js';
import { chain, isPromise } from '../../store/maybe.js';
import { cutNorm, MASTER_TABLE, type Node, normRdnOf, parentIdOf } from '../model/tables.js';
import type { Viewer } from '../model/viewer.js';
import type { EntryIds } from './entry-ids.js';
import { childId, ReadNode, ROOT, suffixRdnIndex } from './nodes.js';
import { referralTo, referralUrls } from './specials.js';
import type { TreeContext } from './tree-context.js';

export interface LocatedEntry {
  readonly node: Node;
  readonly row: Buffer;
}

/** How to read the row of an entry: `get` reads the whole row, `getHead` may read only the head of a split row. */
export type ReadRow = 'get' | 'getHead';

/** Returns the entry at `dn`; undefined if there is none. Reads the row, because cached nodes may be outdated. */
export function findEntry(
  context: TreeContext,
  reader: Reader,
  dn: Dn,
  method: ReadRow = 'get',
): Maybe<LocatedEntry | undefined> {
  const entry = findByPath(context, reader, dn, method);
  if (isPromise(entry)) return entry.then((f) => f ?? retryUncached(context, reader, dn, method));
  return entry ?? retryUncached(context, reader, dn, method);
}

/** Repeats a failed look-up without the cache: a cached node on the path may be outdated, and its name taken. */
function retryUncached(context: TreeContext, reader: Reader, dn: Dn, method: ReadRow): Maybe<LocatedEntry | undefined> {
  const node = context.nodes.nearestCached(dn, 1);
  if (!node) return undefined;
  return chain(reader.getHead(MASTER_TABLE.name, node.id, true), (row) => {
    if (row) return undefined;
    context.nodes.clear();
    return findByPath(context, reader, dn, method);
  });
}

function findByPath(context: TreeContext, reader: Reader, dn: Dn, method: ReadRow): Maybe<LocatedEntry | undefined> {
  const { nodes, shared, ids } = context;
  if (dn.rdns.length === 0) return undefined;
  const isSuffix = shared.isSuffix(dn);
  const parent = isSuffix ? ROOT : nodes.byDn(dn, 1, shared.suffixes);
  const normRdn = cutNorm(isSuffix ? dn.norm : dn.rdns[0]!.norm);
  if (isPromise(parent))
    return parent.then((p) => findChild(reader, ids, isSuffix ? ROOT : notRoot(p), normRdn, method));
  return findChild(reader, ids, isSuffix ? ROOT : notRoot(parent), normRdn, method);
}

function notRoot(node: Node | undefined): Node | undefined {
  return node === ROOT ? undefined : node;
}

function findChild(
  reader: Reader,
  ids: EntryIds,
  parent: Node | undefined,
  normRdn: Buffer,
  method: ReadRow,
): Maybe<LocatedEntry | undefined> {
  if (!parent) return undefined;
  const cachedId = ids.get(parent.id, normRdn);
  const entry = cachedId && readChild(reader, parent, normRdn, cachedId, method);
  if (isPromise(entry)) return entry.then((f) => f ?? findInTree(reader, ids, parent, normRdn, method));
  return entry ?? findInTree(reader, ids, parent, normRdn, method);
}

function findInTree(
  reader: Reader,
  ids: EntryIds,
  parent: Node,
  normRdn: Buffer,
  method: ReadRow,
): Maybe<LocatedEntry | undefined> {
  return chain(childId(reader, parent, normRdn), (id) => {
    if (!id) return undefined;
    ids.set(parent.id, normRdn, id);
    return readChild(reader, parent, normRdn, id, method);
  });
}

function readChild(
  reader: Reader,
  parent: Node,
  normRdn: Buffer,
  id: Buffer,
  method: ReadRow,
): Maybe<LocatedEntry | undefined> {
  const row = reader[method](MASTER_TABLE.name, id);
  return isPromise(row) ? row.then((r) => checkChild(parent, normRdn, id, r)) : checkChild(parent, normRdn, id, row);
}

/** Returns the row if it is that of an entry with this parent and name. */
function checkChild(parent: Node, normRdn: Buffer, id: Buffer, row: Buffer | undefined): LocatedEntry | undefined {
  if (!row || !parentIdOf(row).equals(parent.id) || !normRdnOf(row).equals(normRdn)) return undefined;
  return { node: new ReadNode(id, row, parent, normRdn), row };
}

/**
 * Returns the deepest existing entry on the path to `dn` without its first `start` RDNs. Always reads its row, because
 * cached nodes may be outdated. Looks up each name on the path at most once.
 */
export async function deepestEntry(
  context: TreeContext,
  reader: Reader,
  dn: Dn,
  start: number,
): Promise<LocatedEntry | undefined> {
  const { nodes, shared } = context;
  const deepest = await nodes.deepest(dn, start, shared.suffixes);
  if (!deepest) return undefined;
  const deepestRow = await readNode(reader, deepest.node);
  if (deepestRow) return deepestRow;
  // The cached node is outdated. Other entries may have its name, and the names above, by now.
  nodes.clear();
  let node = (await nodes.deepest(dn, start, shared.suffixes))?.node;
  for (; node && node !== ROOT; node = node.parent) {
    const entry = await readNode(reader, node);
    if (entry) return entry;
  }
  return undefined;
}

function readNode(reader: Reader, { id, parent, normRdn }: Node): Maybe<LocatedEntry | undefined> {
  return readChild(reader, parent ?? ROOT, normRdn, id, 'get');
}

/** Returns `dn` without its first `start` RDNs. */
export function ancestorDn(dn: Dn, start: number): Dn {
  return start === 0 ? dn : ancestorOf(dn, start);
}

/**
 * Returns the entry at `dn` as the target of an operation. Throws `noSuchObject` with matchedDN. Unless `manageDsaIT`
 * is set, throws `referral` if the entry or an ancestor is a referral object (RFC 3296 §5.2–5.6).
 */
export async function requireEntry(
  context: TreeContext,
  reader: Reader,
  dn: Dn,
  manageDsaIT: boolean,
): Promise<LocatedEntry> {
  const entry = await requireHead(context, reader, dn, manageDsaIT, 'get');
  if (!manageDsaIT) refuseReferral(context, entry, dn);
  return entry;
}

/** Like `requireEntry`, but may read only the head of a split row. The caller has to check for a referral object. */
export async function requireHead(
  context: TreeContext,
  reader: Reader,
  dn: Dn,
  manageDsaIT: boolean,
  method: ReadRow = 'getHead',
): Promise<LocatedEntry> {
  let entry = findEntry(context, reader, dn, method);
  if (isPromise(entry)) entry = await entry;
  return entry ?? throwNoSuchObject(context, reader, dn, manageDsaIT);
}

/** Throws `referral` if the entry at `dn` is a referral object. */
export function refuseReferral(context: TreeContext, entry: LocatedEntry, dn: Dn): void {
  throwIfReferral(context, entry, dn, 0);
}

/** Throws `noSuchObject` with the matchedDN, or `referral` if an ancestor is a referral object. */
export async function throwNoSuchObject(
  context: TreeContext,
  reader: Reader,
  dn: Dn,
  manageDsaIT = false,
  message = 'there is no entry with this name',
): Promise<never> {
  const ancestor = await deepestEntry(context, reader, dn, 1);
  if (ancestor && !manageDsaIT)
    throwIfReferral(context, ancestor, dn, dn.rdns.length - context.schema.parseDnBytes(ancestor.node.dn).rdns.length);
  const matchedDN = ancestor ? ancestor.node.dn.toString() : '';
  throw new LdapError('noSuchObject', ancestor ? message : noAncestorMessage(context, dn), { matchedDN });
}

/** Returns the message for a name that has no existing ancestor. */
export function noAncestorMessage({ shared }: TreeContext, dn: Dn): string {
  const index = suffixRdnIndex(dn, shared.suffixes);
  if (index >= 0) return `the suffix '${ancestorDn(dn, index).text}' has no entry yet; add the suffix entry first`;
  const suffixes = shared.settings.suffixes.map((suffix) => `'${suffix}'`).join(', ');
  return `no entry with this name: it is below no suffix; this directory holds ${suffixes}`;
}

function throwIfReferral(context: TreeContext, entry: LocatedEntry, requestedDn: Dn, lowerCount: number): void {
  const urls = referralUrls(context, entry.row);
  if (urls.length === 0) return;
  const lowerRdns = requestedDn.rdns.slice(0, lowerCount).map((r) => r.text);
  const referrals = urls.map((url) => referralTo(url, lowerRdns, entry.node.dn.toString()));
  throw new LdapError('referral', '', { referrals, matchedDN: entry.node.dn.toString() });
}

/** Whether the viewer sees the entry. `row` returns the master row; called only if the answer depends on it. */
export function isVisible({ sees, sightOf }: Viewer, node: Node, row: () => Maybe<Buffer | undefined>): Maybe<boolean> {
  if (!sightOf || node === ROOT) return true;
  const isSeen = sees?.(node);
  if (isSeen !== undefined) return isSeen;
  return chain(
    row(),
    (r) => r !== undefined && sightOf({ id: node.id, parent: node.parent ?? ROOT, row: r }) !== undefined,
  );
}

/** Thrown for an existing entry that is hidden. `errorAsSeen` turns it into the error for a missing entry. */
export class HiddenEntry extends LdapError {
  readonly node: Node;

  constructor(node: Node) {
    super('noSuchObject', NO_ENTRY);
    this.node = node;
  }
}

/** Returns the error that the viewer gets: matchedDN must be a visible entry, and hidden entries look missing. */
export async function errorAsSeen(
  context: TreeContext,
  reader: Reader,
  viewer: Viewer,
  error: unknown,
): Promise<unknown> {
  if (!viewer.sightOf || !(error instanceof LdapError)) return error;
  if (error instanceof HiddenEntry) return hiddenError(context, reader, viewer, error.node);
  const { result, message, matchedDN } = error;
  const visibleDN = matchedDN && (await deepestVisible(context, reader, viewer, matchedDN));
  // Any further detail would distinguish a hidden entry from a missing one.
  if (result === 'noSuchObject') return new LdapError(result, NO_ENTRY, { matchedDN: visibleDN, cause: error });
  if (visibleDN === matchedDN) return error;
  if (result === 'referral') return new LdapError('noSuchObject', NO_ENTRY, { matchedDN: visibleDN, cause: error });
  return new LdapError(result, message, { matchedDN: visibleDN, cause: error });
}

/** Message for an entry that is missing or hidden from the viewer. */
const NO_ENTRY = 'there is no entry with this name';

async function hiddenError(context: TreeContext, reader: Reader, viewer: Viewer, node: Node): Promise<LdapError> {
  const matchedDN = node.parent ? await deepestVisible(context, reader, viewer, node.parent.dn.toString()) : '';
  return new LdapError('noSuchObject', NO_ENTRY, { matchedDN });
}

/** Returns the DN of the deepest entry at or above `dn` that the viewer sees; '' if there is none. */
async function deepestVisible(context: TreeContext, reader: Reader, viewer: Viewer, dn: string): Promise<string> {
  const entry = findEntry(context, reader, context.schema.parseDn(dn));
  let node: Node | undefined = (isPromise(entry) ? await entry : entry)?.node;
  for (; node && node !== ROOT; node = node.parent) {
    const { id } = node;
    const isSeen = isVisible(viewer, node, () => reader.get(MASTER_TABLE.name, id));
    if (isPromise(isSeen) ? await isSeen : isSeen) return node.dn.toString();
  }
  return '';
}
