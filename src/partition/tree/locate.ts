import { LdapError } from '../../ldap/ldap-error.js';
import { ancestorOf } from '../../schema/dn.js';
import type { Schema } from '../../schema/schema.js';
import type { Dn } from '../../schema/schema-types.js';
import type { Maybe, Reader } from '../../store/contract.js';
import { chain, isPromise } from '../../store/maybe.js';
import type { DescriptionTable } from '../model/descriptions.js';
import { attributeValues } from '../model/entry-cells.js';
import type { EntryReader } from '../model/entry-reader.js';
import type { Node } from '../model/node.js';
import { cutNorm, MASTER_TABLE, normRdnOf, parentIdOf } from '../model/tables.js';
import type { EntryIds } from './entry-ids.js';
import { childId, type NodeCache, ReadNode, ROOT, suffixAt } from './nodes.js';
import type { SharedState } from './shared-state.js';

/** An entry found by its DN. */
export interface Located {
  readonly node: Node;
  /** Packed master row. */
  readonly row: Buffer;
}

/** The rooms' shared handle: what every operation needs. */
export interface Context {
  readonly schema: Schema;
  readonly shared: SharedState;
  readonly nodes: NodeCache;
  readonly ids: EntryIds;
  readonly descriptions: DescriptionTable;
  /** For use within one call. */
  readonly reader: EntryReader;
}

/** How the row of an entry is read: whole, or as the contract's `getHead` has it. */
export type ReadRow = 'get' | 'getHead';

/** The entry at `dn`, or undefined. Its row is read now, so it is there and has this name. */
export function findEntry(context: Context, reader: Reader, dn: Dn, how: ReadRow = 'get'): Maybe<Located | undefined> {
  const found = walk(context, reader, dn, how);
  if (isPromise(found)) return found.then((f) => f ?? walkAgain(context, reader, dn, how));
  return found ?? walkAgain(context, reader, dn, how);
}

/**
 * Nothing was found: was it looked for below a cached node whose entry is gone, and its name perhaps another's by now?
 */
function walkAgain(context: Context, reader: Reader, dn: Dn, how: ReadRow): Maybe<Located | undefined> {
  const node = context.nodes.cached(dn, 1);
  if (!node) return undefined;
  return chain(reader.getHead(MASTER_TABLE.name, node.id, true), (row) => {
    if (row) return undefined;
    context.nodes.clear();
    return walk(context, reader, dn, how);
  });
}

function walk(context: Context, reader: Reader, dn: Dn, how: ReadRow): Maybe<Located | undefined> {
  const { nodes, shared, ids } = context;
  if (dn.rdns.length === 0) return undefined;
  const isSuffix = shared.isSuffix(dn);
  const parent = isSuffix ? ROOT : nodes.byDn(dn, 1, shared.suffixes);
  const normRdn = cutNorm(isSuffix ? dn.norm : dn.rdns[0]!.norm);
  if (isPromise(parent)) return parent.then((p) => findChild(reader, ids, isSuffix ? ROOT : notRoot(p), normRdn, how));
  return findChild(reader, ids, isSuffix ? ROOT : notRoot(parent), normRdn, how);
}

function notRoot(node: Node | undefined): Node | undefined {
  return node === ROOT ? undefined : node;
}

/** The entry named `normRdn` right below `parent`. */
function findChild(
  reader: Reader,
  ids: EntryIds,
  parent: Node | undefined,
  normRdn: Buffer,
  how: ReadRow,
): Maybe<Located | undefined> {
  if (!parent) return undefined;
  const known = ids.get(parent.id, normRdn);
  const found = known && readChild(reader, parent, normRdn, known, how);
  if (isPromise(found)) return found.then((f) => f ?? askTree(reader, ids, parent, normRdn, how));
  return found ?? askTree(reader, ids, parent, normRdn, how);
}

function askTree(
  reader: Reader,
  ids: EntryIds,
  parent: Node,
  normRdn: Buffer,
  how: ReadRow,
): Maybe<Located | undefined> {
  return chain(childId(reader, parent, normRdn), (id) => {
    if (!id) return undefined;
    ids.set(parent.id, normRdn, id);
    return readChild(reader, parent, normRdn, id, how);
  });
}

function readChild(
  reader: Reader,
  parent: Node,
  normRdn: Buffer,
  id: Buffer,
  how: ReadRow,
): Maybe<Located | undefined> {
  const row = reader[how](MASTER_TABLE.name, id);
  return isPromise(row) ? row.then((r) => asChild(parent, normRdn, id, r)) : asChild(parent, normRdn, id, row);
}

/** A row that has moved on since its id was found is not the entry asked for. */
function asChild(parent: Node, normRdn: Buffer, id: Buffer, row: Buffer | undefined): Located | undefined {
  if (!row || !parentIdOf(row).equals(parent.id) || !normRdnOf(row).equals(normRdn)) return undefined;
  return { node: new ReadNode(id, row, parent, normRdn), row };
}

/**
 * The deepest entry on the way down to `dn` without its first `from` RDNs, itself included. Its row is read now, so it
 * is there and has this name. Each name on the way is looked up once at most.
 */
export async function deepestEntry(
  context: Context,
  reader: Reader,
  dn: Dn,
  from: number,
): Promise<Located | undefined> {
  const { nodes, shared } = context;
  const reached = await nodes.deepest(dn, from, shared.suffixes);
  if (!reached) return undefined;
  const found = await readNode(reader, reached.node);
  if (found) return found;
  // It was cached and is gone: its name, and names above it, may be others' by now.
  nodes.clear();
  let node = (await nodes.deepest(dn, from, shared.suffixes))?.node;
  for (; node && node !== ROOT; node = node.parent) {
    const there = await readNode(reader, node);
    if (there) return there;
  }
  return undefined;
}

function readNode(reader: Reader, { id, parent, normRdn }: Node): Maybe<Located | undefined> {
  return readChild(reader, parent ?? ROOT, normRdn, id, 'get');
}

/** `dn` without its first `from` RDNs. */
export function tail(dn: Dn, from: number): Dn {
  return from === 0 ? dn : ancestorOf(dn, from);
}

/**
 * The entry at `dn`, as an operation's target. Throws `noSuchObject` with matchedDN, `referral` when the entry or one
 * above it is a referral object (RFC 3296 §5.2–5.6), unless `manageDsaIT`.
 */
export async function requireEntry(context: Context, reader: Reader, dn: Dn, manageDsaIT: boolean): Promise<Located> {
  const found = await requireHead(context, reader, dn, manageDsaIT, 'get');
  if (!manageDsaIT) refuseReferral(context, found, dn);
  return found;
}

/**
 * The same, but of a split row the head alone may come: whether it is a referral object is then for the caller to see.
 */
export async function requireHead(
  context: Context,
  reader: Reader,
  dn: Dn,
  manageDsaIT: boolean,
  how: ReadRow = 'getHead',
): Promise<Located> {
  let found = findEntry(context, reader, dn, how);
  if (isPromise(found)) found = await found;
  return found ?? throwNoSuchObject(context, reader, dn, manageDsaIT);
}

/** Throws `referral` when the entry at `dn` is a referral object. */
export function refuseReferral(context: Context, found: Located, dn: Dn): void {
  throwIfReferral(context, found, dn, 0);
}

/** Says how far the name goes; a referral on the way is given instead. */
export async function throwNoSuchObject(
  context: Context,
  reader: Reader,
  dn: Dn,
  manageDsaIT = false,
  message = 'there is no entry with this name',
): Promise<never> {
  const ancestor = await deepestEntry(context, reader, dn, 1);
  if (ancestor && !manageDsaIT) {
    throwIfReferral(context, ancestor, dn, dn.rdns.length - depth(context, ancestor.node));
  }
  const matchedDN = ancestor ? ancestor.node.dn.toString() : '';
  throw new LdapError('noSuchObject', ancestor ? message : outsideWhy(context, dn), {
    matchedDN,
  });
}

/** Of a name that no entry stands above: no suffix is above it, or the suffix has no entry. */
export function outsideWhy({ shared }: Context, dn: Dn): string {
  const at = suffixAt(dn, shared.suffixes);
  if (at >= 0) return `the suffix '${tail(dn, at).text}' has no entry yet; add the suffix entry first`;
  const suffixes = shared.settings.suffixes.map((suffix) => `'${suffix}'`).join(', ');
  return `no entry with this name: it is below no suffix; this directory holds ${suffixes}`;
}

function depth(context: Context, node: Node): number {
  return context.schema.parseDnBytes(node.dn).rdns.length;
}

function throwIfReferral(context: Context, found: Located, asked: Dn, below: number): void {
  const urls = referralUrls(context, found.row);
  if (urls.length === 0) return;
  const rest = asked.rdns.slice(0, below).map((r) => r.text);
  const referrals = urls.map((url) => referralTo(url, rest, found.node.dn.toString()));
  throw new LdapError('referral', '', { referrals, matchedDN: found.node.dn.toString() });
}

/** `alias` or `referral` when the objectClass value, by name or OID, says so (RFC 4512 §2.6, RFC 3296 §2). */
export function specialValue(value: Buffer): 'alias' | 'referral' | undefined {
  const n = value.length;
  if (n !== 5 && n !== 7 && n !== 8 && n !== 23) return undefined;
  const text = value.toString('latin1').toLowerCase();
  if (text === 'alias' || text === '2.5.6.1') return 'alias';
  return text === 'referral' || text === '2.16.840.1.113730.3.2.6' ? 'referral' : undefined;
}

/** Whether the entry is an alias or a referral object. */
export function specialClass(context: Context, row: Buffer): 'alias' | 'referral' | undefined {
  for (const value of attributeValues(context, row, 'objectClass')) {
    const special = specialValue(value);
    if (special) return special;
  }
  return undefined;
}

/** URLs of a referral object; empty for any other entry. */
export function referralUrls(context: Context, row: Buffer): string[] {
  if (specialClass(context, row) !== 'referral') return [];
  // The URI is followed by an optional label (RFC 3296 §2.1, RFC 2079).
  return attributeValues(context, row, 'ref').map((v) => v.toString().split(' ')[0]!);
}

const LDAP_URL = /^(ldaps?:\/\/[^/?]*)(?:\/([^?]*))?/i;

/** RFC 3296 §5.2: the URL's DN, or the entry's own where it has none, under the RDNs that were asked for below it. */
export function referralTo(url: string, rest: readonly string[], own: string, scope?: 'base' | 'sub'): string {
  const match = LDAP_URL.exec(url);
  if (!match) return url;
  const target = match[2] ? decodePercent(match[2]) : own;
  const dn = [...rest, target].filter((part) => part !== '').join(',');
  return `${match[1]}/${encodeURI(dn).replace(/[?#]/g, encodeURIComponent)}${scope ? `??${scope}` : ''}`;
}

/** What `referralTo` made without a scope, with one. */
export function withScope(url: string, scope: 'base' | 'one' | 'sub'): string {
  return LDAP_URL.test(url) ? `${url}??${scope}` : url;
}

/** A `ref` that is not well percent-encoded is passed on as it stands. */
function decodePercent(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch (error) {
    if (error instanceof URIError) return text;
    throw error;
  }
}
