import { decodePercent } from '../../ldap/text.js';
import type { Maybe, Reader } from '../../store/contract.js';
import { chain, isPromise } from '../../store/maybe.js';
import { attributeValues } from '../model/entry-cells.js';
import { OBJECT_CLASS_OID } from '../model/index-set.js';
import { equalityPrefix, indexTable, MASTER_TABLE, type Node, parentIdOf, UUID_BYTES } from '../model/tables.js';
import { makeNode, type NodeCache } from './nodes.js';
import type { TreeContext } from './tree-context.js';

export type SpecialKind = 'alias' | 'referral';

/** OID and name of the object class of subentries (RFC 3672 §2.4). */
const SUBENTRY = ['2.5.17.0', 'subentry'];

const OBJECT_CLASS_TABLE = indexTable(OBJECT_CLASS_OID).name;
const IDS_PER_READ = 256;
/** The most aliases and referrals whose positions are cached. With more, each search reads them again. */
const MAX_CACHED = 50_000;

/** Returns the prefix of the index keys of an object class. */
function classPrefix(context: TreeContext, name: SpecialKind | 'subentry'): Buffer {
  return equalityPrefix(context.schema.requireDescription('objectClass').type.equality!.normalize(Buffer.from(name))!);
}

/** The aliases and referrals in one version of the tree. Their positions are read when a search first needs them. */
export class Specials {
  readonly hasAliases: boolean;
  readonly hasReferrals: boolean;
  readonly hasSubentries: boolean;
  #places: Places | undefined;
  #pendingPlaces: Promise<Places> | undefined;

  constructor(hasAliases: boolean, hasReferrals: boolean, hasSubentries: boolean) {
    this.hasAliases = hasAliases;
    this.hasReferrals = hasReferrals;
    this.hasSubentries = hasSubentries;
  }

  get isEmpty(): boolean {
    return !this.hasAliases && !this.hasReferrals;
  }

  /** Returns the positions of all aliases and referrals. Calls `pass` between reads, so that other work can run. */
  places(context: TreeContext, reader: Reader, pass: () => Maybe<void>): Maybe<Places> {
    return this.#places ?? this.#load(context, reader, pass);
  }

  async #load(context: TreeContext, reader: Reader, pass: () => Maybe<void>): Promise<Places> {
    this.#pendingPlaces ??= findPlaces(context, reader, this, pass).finally(() => {
      this.#pendingPlaces = undefined;
    });
    const places = await this.#pendingPlaces;
    if (places.size <= MAX_CACHED) this.#places = places;
    return places;
  }
}

/** The current `Specials` by node cache, valid for one era of the cache. */
const specialsByCache = new WeakMap<NodeCache, { readonly era: number; readonly specials: Specials }>();

/** Returns the aliases and referrals. Checks once per version of the tree whether there are any. */
export function specialsOf(context: TreeContext, reader: Reader): Maybe<Specials> {
  const { nodes } = context;
  const { era } = nodes;
  const cached = specialsByCache.get(nodes);
  if (cached?.era === era) return cached.specials;
  context.shared.indexes.require(context.schema.requireDescription('objectClass').type);
  const counts = (['alias', 'referral', 'subentry'] as const).map((name) =>
    reader.postingCount(OBJECT_CLASS_TABLE, classPrefix(context, name), 1),
  );
  const cacheSpecials = ([aliasCount, referralCount, subentryCount]: readonly number[]): Specials => {
    const specials = new Specials(aliasCount! > 0, referralCount! > 0, subentryCount! > 0);
    if (era === nodes.era) specialsByCache.set(nodes, { era, specials });
    return specials;
  };
  return counts.some(isPromise) ? Promise.all(counts).then(cacheSpecials) : cacheSpecials(counts as number[]);
}

/** The positions of aliases and referrals in the tree. Targets of aliases and URLs of referrals are in their rows. */
export class Places {
  readonly #ids = new Set<string>();
  readonly #lists = {
    alias: { children: new Map<string, Node[]>(), below: new Map<string, Node[]>() },
    referral: { children: new Map<string, Node[]>(), below: new Map<string, Node[]>() },
  };

  get size(): number {
    return this.#ids.size;
  }

  add(kind: SpecialKind, node: Node): void {
    const { children, below } = this.#lists[kind];
    this.#ids.add(idKey(node.id));
    push(children, node.parent!, node);
    for (let ancestor = node.parent; ancestor; ancestor = ancestor.parent) push(below, ancestor, node);
  }

  has(id: Buffer): boolean {
    return this.#ids.has(idKey(id));
  }

  /** Returns the aliases or referrals below the node, or only its children. */
  nodesBelow(kind: SpecialKind, node: Node, onlyChildren: boolean): readonly Node[] {
    const { [kind]: lists } = this.#lists;
    return (onlyChildren ? lists.children : lists.below).get(idKey(node.id)) ?? NO_NODES;
  }
}

const NO_NODES: readonly Node[] = [];

function idKey(id: Buffer): string {
  return id.toString('latin1');
}

function push(lists: Map<string, Node[]>, ancestor: Node, node: Node): void {
  const key = idKey(ancestor.id);
  const list = lists.get(key);
  if (list) list.push(node);
  else lists.set(key, [node]);
}

async function findPlaces(
  context: TreeContext,
  reader: Reader,
  specials: Specials,
  pass: () => Maybe<void>,
): Promise<Places> {
  const places = new Places();
  if (specials.hasAliases) await findKind(context, reader, 'alias', places, pass);
  if (specials.hasReferrals) await findKind(context, reader, 'referral', places, pass);
  return places;
}

async function findKind(
  context: TreeContext,
  reader: Reader,
  kind: SpecialKind,
  places: Places,
  pass: () => Maybe<void>,
): Promise<void> {
  const prefix = classPrefix(context, kind);
  let lastId: Buffer | undefined;
  for (;;) {
    const ids = await reader.postings(OBJECT_CLASS_TABLE, prefix, IDS_PER_READ, lastId);
    for (let offset = 0; offset < ids.length; offset += UUID_BYTES) {
      const special = specialNode(context, reader, kind, Buffer.from(ids.subarray(offset, offset + UUID_BYTES)));
      const node = isPromise(special) ? await special : special;
      if (node) places.add(kind, node);
      const pause = pass();
      if (isPromise(pause)) await pause;
    }
    if (ids.length < IDS_PER_READ * UUID_BYTES) return;
    lastId = Buffer.from(ids.subarray(ids.length - UUID_BYTES));
  }
}

/** Returns undefined if the entry was deleted, or lost the object class, after the index was read. */
function specialNode(context: TreeContext, reader: Reader, kind: SpecialKind, id: Buffer): Maybe<Node | undefined> {
  return chain(reader.get(MASTER_TABLE.name, id), (row) => {
    const isKind = row && attributeValues(context, row, 'objectClass').some((value) => specialValue(value) === kind);
    if (!row || !isKind) return undefined;
    return chain(context.nodes.byId(Buffer.from(parentIdOf(row))), (parent) => parent && makeNode(id, row, parent));
  });
}

/** Returns whether a value of objectClass is alias or referral, as name or OID (RFC 4512 §2.6, RFC 3296 §2). */
export function specialValue(value: Buffer): 'alias' | 'referral' | undefined {
  const n = value.length;
  if (n !== 5 && n !== 7 && n !== 8 && n !== 23) return undefined;
  const text = value.toString('latin1').toLowerCase();
  if (text === 'alias' || text === '2.5.6.1') return 'alias';
  return text === 'referral' || text === '2.16.840.1.113730.3.2.6' ? 'referral' : undefined;
}

export function isSubentryClass(value: Buffer): boolean {
  return value.length === 8 && SUBENTRY.includes(value.toString('latin1').toLowerCase());
}

export function isSubentry(context: TreeContext, row: Buffer): boolean {
  return attributeValues(context, row, 'objectClass').some(isSubentryClass);
}

/** Returns `alias` or `referral` for an entry of that object class; undefined for any other entry. */
export function specialClass(context: TreeContext, row: Buffer): 'alias' | 'referral' | undefined {
  for (const value of attributeValues(context, row, 'objectClass')) {
    const special = specialValue(value);
    if (special) return special;
  }
  return undefined;
}

/** Returns the URLs of a referral object; an empty list for any other entry. */
export function referralUrls(context: TreeContext, row: Buffer): string[] {
  if (specialClass(context, row) !== 'referral') return [];
  // A label may follow the URI (RFC 3296 §2.1, RFC 2079).
  return attributeValues(context, row, 'ref').map((v) => v.toString().split(' ')[0]!);
}

const LDAP_URL = /^(ldaps?:\/\/[^/?]*)(?:\/([^?]*))?/i;

/**
 * Returns the referral URL for a requested name (RFC 3296 §5.2): puts `rdns`, the requested RDNs below the referral
 * object, in front of the DN in `url`. If `url` has no DN, uses `objectDn`, the DN of the referral object.
 */
export function referralTo(url: string, rdns: readonly string[], objectDn: string, scope?: 'base' | 'sub'): string {
  const match = LDAP_URL.exec(url);
  if (!match) return url;
  const target = match[2] ? (decodePercent(match[2]) ?? match[2]) : objectDn;
  const dn = [...rdns, target].filter((part) => part !== '').join(',');
  return `${match[1]}/${encodeURI(dn).replace(/[?#]/g, encodeURIComponent)}${scope ? `??${scope}` : ''}`;
}

/** Adds a scope to a URL from `referralTo` that has none. */
export function withScope(url: string, scope: 'base' | 'one' | 'sub'): string {
  return LDAP_URL.test(url) ? `${url}??${scope}` : url;
}
