import type { Maybe, Reader } from '../../store/contract.js';
import { chain, isPromise } from '../../store/maybe.js';
import { attributeValues } from '../model/entry-cells.js';
import { OBJECT_CLASS_OID } from '../model/index-set.js';
import type { Node } from '../model/node.js';
import { equalityPrefix, indexTable, MASTER_TABLE, parentIdOf, UUID_BYTES } from '../model/tables.js';
import { makeNode, type NodeCache } from './nodes.js';
import { specialValue } from './referrals.js';
import type { TreeContext } from './tree-context.js';

export type SpecialKind = 'alias' | 'referral';

const OBJECT_CLASS_TABLE = indexTable(OBJECT_CLASS_OID).name;
const IDS_PER_READ = 256;
/** The most aliases and referrals whose positions are cached. With more, each search reads them again. */
const MAX_CACHED = 50_000;

/** Returns the prefix of the index keys of an object class. */
function classPrefix(context: TreeContext, name: SpecialKind): Buffer {
  return equalityPrefix(context.schema.requireDescription('objectClass').type.equality!.normalize(Buffer.from(name))!);
}

/** The aliases and referrals in one version of the tree. Their positions are read when a search first needs them. */
export class Specials {
  readonly hasAliases: boolean;
  readonly hasReferrals: boolean;
  #places: Places | undefined;
  #pendingPlaces: Promise<Places> | undefined;

  constructor(hasAliases: boolean, hasReferrals: boolean) {
    this.hasAliases = hasAliases;
    this.hasReferrals = hasReferrals;
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
  const count = (name: SpecialKind): Maybe<number> =>
    reader.postingCount(OBJECT_CLASS_TABLE, classPrefix(context, name), 1);
  const aliasCount = count('alias');
  const referralCount = count('referral');
  const cacheSpecials = (a: number, r: number): Specials => {
    const specials = new Specials(a > 0, r > 0);
    if (era === nodes.era) specialsByCache.set(nodes, { era, specials });
    return specials;
  };
  if (isPromise(aliasCount) || isPromise(referralCount))
    return Promise.all([aliasCount, referralCount]).then(([a, r]) => cacheSpecials(a, r));
  return cacheSpecials(aliasCount, referralCount);
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
