import { sameBytes } from '../../bytes/compare.js';
import { BoundedMap } from '../../cache/bounded-map.js';
import { ancestorOf } from '../../schema/dn.js';
import type { Schema } from '../../schema/schema.js';
import type { Dn, Rdn } from '../../schema/schema-types.js';
import type { Maybe, Reader } from '../../store/contract.js';
import { chain, isPromise } from '../../store/maybe.js';
import { cellValue } from '../../store/row.js';
import {
  cutNorm,
  DETACHED_ID,
  MASTER_TABLE,
  type Node,
  normRdnOf,
  parentIdOf,
  Q,
  ROOT_ID,
  TREE,
  TREE_TABLE,
  treeKey,
  upRdnOf,
} from '../model/tables.js';
import { MAX_NORM } from '../model/thresholds.js';

export const ROOT: Node = { id: ROOT_ID, parent: undefined, normRdn: Buffer.alloc(0), dn: Buffer.alloc(0) };

export function nodeTreeKey(node: Node): Buffer {
  return treeKey((node.parent ?? ROOT).id, node.normRdn);
}

export function joinDn(rdn: Buffer, parent: Buffer): Buffer {
  return joinDnAt(rdn, 0, rdn.length, parent);
}

/** Like `joinDn`, for the RDN in `bytes[start, end)`. */
export function joinDnAt(bytes: Buffer, start: number, end: number, parent: Buffer): Buffer {
  const rdn = end - start;
  const dn = Buffer.allocUnsafe(parent.length === 0 ? rdn : rdn + 1 + parent.length);
  for (let i = 0; i < rdn; i++) dn[i] = bytes[start + i]!;
  if (parent.length === 0) return dn;
  dn[rdn] = COMMA;
  dn.set(parent, rdn + 1);
  return dn;
}

const COMMA = 0x2c;

export function makeNode(id: Buffer, row: Buffer, parent: Node): Node {
  return { id, parent, normRdn: Buffer.from(normRdnOf(row)), dn: joinDn(upRdnOf(row), parent.dn) };
}

/** Node of an entry that was just read. Computes the DN on demand. Not to be kept: it keeps the row in memory. */
export class ReadNode implements Node {
  readonly id: Buffer;
  readonly parent: Node;
  readonly normRdn: Buffer;
  readonly #row: Buffer;
  #dn: Buffer | undefined;

  constructor(id: Buffer, row: Buffer, parent: Node, normRdn: Buffer) {
    this.id = id;
    this.#row = row;
    this.parent = parent;
    this.normRdn = normRdn;
  }

  get dn(): Buffer {
    this.#dn ??= joinDn(upRdnOf(this.#row), this.parent.dn);
    return this.#dn;
  }
}

export function isWithin(node: Node, ancestor: Node): boolean {
  for (let n: Node | undefined = node; n; n = n.parent) if (n === ancestor) return true;
  // Compare ids: an entry may have several nodes, created at different times.
  for (let n: Node | undefined = node; n; n = n.parent) if (n.id.equals(ancestor.id)) return true;
  return false;
}

const MAX_NODES = 200_000;
/** The cache has no entry whose normalized name has more bytes. */
const MAX_ANCESTOR_BYTES = 1024;

export interface PathNode {
  readonly node: Node;
  /** Index in the DN of the RDN that names the entry. */
  readonly rdnIndex: number;
  /** Length of the entry's normalized name in bytes. */
  readonly normLength: number;
}

/**
 * Caches nodes of entries with children, by entryUUID and by normalized DN.
 * ~ The cache stays valid while other processes and front ends rename entries. Every plan that renames or moves an
 * entry, or changes which entries are aliases or referrals, increments the counter `treeVersion` of the shared row.
 * When that row has changed, `SharedState.fresh` clears the cache. Deletions increment no counter, because an entry
 * with children cannot be deleted. Code that uses a cached node as an entry reads its row and so notices a deletion.
 * Code that finds nothing below a cached node checks that the node still exists, because its name may belong to another
 * entry by now (`findEntry`, `search`).
 * ~ A store may answer asynchronously. A result that arrives after the cache was cleared is not cached.
 */
export class NodeCache {
  readonly #store: Reader;
  readonly #byId = new BoundedMap<string, Node>(MAX_NODES);
  readonly #byDn = new BoundedMap<string, Node>(MAX_NODES);
  #era = 0;
  /** The last result of `byIdAt`. Consecutive candidates mostly have the same parent. */
  #lastNode: Node = ROOT;
  /**
   * The first RDN object in the last call of `byDn`. DNs that were parsed below one ancestor share its RDN objects, so
   * this object identifies all following RDNs. Saves 5 % of a short search.
   */
  #lastRdn: Rdn | undefined;
  #lastNodeByDn: Node | undefined;

  constructor(store: Reader) {
    this.#store = store;
  }

  clear(): void {
    this.#byId.clear();
    this.#lastNode = ROOT;
    this.#forgetNames();
    this.#era++;
  }

  #forgetNames(): void {
    this.#byDn.clear();
    this.#lastRdn = this.#lastNodeByDn = undefined;
  }

  get era(): number {
    return this.#era;
  }

  /**
   * Returns the node of an entry; undefined if the entry or an ancestor does not exist. During a deletion or move an
   * entry may seem to be missing for a moment, so the caller should read again.
   */
  byId(id: Buffer, era = this.#era): Maybe<Node | undefined> {
    const cached = this.#byId.get(id.toString('latin1', 0, 16));
    if (cached) return cached;
    if (id.equals(ROOT_ID)) return ROOT;
    return this.#load(id, era);
  }

  /** Like `byId`, for the id in `row[start, start + 16)`. */
  byIdAt(row: Buffer, start: number): Maybe<Node | undefined> {
    if (sameBytes(this.#lastNode.id, row, start, start + 16)) return this.#lastNode;
    const cached = this.#byId.get(row.toString('latin1', start, start + 16));
    if (cached) this.#lastNode = cached;
    return cached ?? this.byId(Buffer.from(row.subarray(start, start + 16)));
  }

  #load(id: Buffer, era: number): Maybe<Node | undefined> {
    const row = this.#store.getHead(MASTER_TABLE.name, id, true);
    return isPromise(row) ? row.then((r) => this.#withParent(id, r, era)) : this.#withParent(id, row, era);
  }

  #withParent(id: Buffer, row: Buffer | undefined, era: number): Maybe<Node | undefined> {
    if (!row) return undefined;
    const parent = this.byId(Buffer.from(parentIdOf(row)), era);
    return isPromise(parent)
      ? parent.then((p) => this.#cacheById(id, row, p, era))
      : this.#cacheById(id, row, parent, era);
  }

  #cacheById(id: Buffer, row: Buffer, parent: Node | undefined, era: number): Node | undefined {
    if (!parent) return undefined;
    const node = makeNode(Buffer.from(id), row, parent);
    if (era !== this.#era) return node;
    this.#byId.set(node.id.toString('latin1', 0, 16), node);
    return node;
  }

  /** Returns the node of the entry at `dn.rdns[start…]`; undefined if there is none. */
  byDn(dn: Dn, start: number, suffixes: readonly Dn[], era = this.#era): Maybe<Node | undefined> {
    if (start >= dn.rdns.length) return ROOT;
    const rdn = dn.rdns[start]!;
    if (rdn === this.#lastRdn) return this.#lastNodeByDn;
    const cached = this.#byDn.get(normText(dn, start));
    if (cached) {
      this.#lastRdn = rdn;
      this.#lastNodeByDn = cached;
      return cached;
    }
    return chain(this.deepest(dn, start, suffixes, era), (found) =>
      found?.rdnIndex === start ? found.node : undefined,
    );
  }

  /**
   * Returns the deepest existing entry on the path to `dn.rdns[start…]`; undefined if not even the suffix exists.
   * Starts from the deepest cached entry, or from the suffix, and reads one tree row per name.
   */
  deepest(dn: Dn, start: number, suffixes: readonly Dn[], era = this.#era): Maybe<PathNode | undefined> {
    const suffixIndex = suffixRdnIndex(dn, suffixes);
    if (suffixIndex < start) return undefined;
    return this.#descend(dn, start, suffixIndex, this.#nearest(dn, start), era);
  }

  #descend(
    dn: Dn,
    start: number,
    top: number,
    knownNode: PathNode | undefined,
    era: number,
  ): Maybe<PathNode | undefined> {
    let deepest = knownNode;
    for (let i = (knownNode ? knownNode.rdnIndex : top + 1) - 1; i >= start; i--) {
      const norm = i === top ? normFrom(dn, top) : dn.rdns[i]!.norm;
      const length = deepest ? deepest.normLength + 1 + norm.length : norm.length;
      const node = this.#findChild(deepest ? deepest.node : ROOT, cutNorm(norm), era);
      if (isPromise(node)) {
        const deepestSoFar = deepest;
        return node.then((n) =>
          n ? this.#descend(dn, start, top, this.#cacheByName(dn, start, i, length, n, era), era) : deepestSoFar,
        );
      }
      if (!node) return deepest;
      deepest = this.#cacheByName(dn, start, i, length, node, era);
    }
    return deepest;
  }

  #cacheByName(dn: Dn, start: number, offset: number, length: number, node: Node, era: number): PathNode {
    const isKept = offset === start || length <= MAX_ANCESTOR_BYTES;
    if (isKept && era === this.#era) this.#byDn.set(dn.norm.toString('latin1', dn.norm.length - length), node);
    return { node, rdnIndex: offset, normLength: length };
  }

  /** Returns the cached node from which `byDn` starts. */
  nearestCached(dn: Dn, start: number): Node | undefined {
    return this.#nearest(dn, start)?.node;
  }

  #nearest(dn: Dn, start: number): PathNode | undefined {
    if (start >= dn.rdns.length) return undefined;
    let length = normFrom(dn, start).length;
    for (let offset = start; offset < dn.rdns.length; offset++) {
      if (offset === start || length <= MAX_ANCESTOR_BYTES) {
        const node = this.#byDn.get(dn.norm.toString('latin1', dn.norm.length - length));
        if (node) return { node, rdnIndex: offset, normLength: length };
      }
      length -= dn.rdns[offset]!.norm.length + 1;
    }
    return undefined;
  }

  #findChild(parent: Node, normRdn: Buffer, era: number): Maybe<Node | undefined> {
    const id = childId(this.#store, parent, normRdn);
    if (isPromise(id)) return id.then((i) => i && this.byId(i, era));
    return id && this.byId(id, era);
  }
}

/** Returns the id of the child of `parent` with the name `normRdn` (cut); undefined if there is none. */
export function childId(store: Reader, parent: Node, normRdn: Buffer): Maybe<Buffer | undefined> {
  const row = store.getHead(TREE_TABLE.name, treeKey(parent.id, normRdn), true);
  return isPromise(row) ? row.then(idOf) : idOf(row);
}

function idOf(treeRow: Buffer | undefined): Buffer | undefined {
  return treeRow && cellValue(treeRow, TREE.treeInfo, Q.id);
}

/** Returns a node that stands for the parent of `dn`, which may be gone; undefined if no suffix is above. */
export function formerParent(dn: Dn, suffixes: readonly Dn[]): Node | undefined {
  const top = suffixRdnIndex(dn, suffixes);
  if (top < 0) return undefined;
  let node = ROOT;
  for (let i = top; i > 0; i--) {
    const rdnText = i === top ? ancestorOf(dn, top).text : dn.rdns[i]!.text;
    const normRdn = cutNorm(i === top ? normFrom(dn, top) : dn.rdns[i]!.norm);
    node = { id: DETACHED_ID, parent: node, normRdn, dn: joinDn(Buffer.from(rdnText), node.dn) };
  }
  return node;
}

/** Returns the normalized bytes of `dn` without its first `start` RDNs. */
function normFrom(dn: Dn, start: number): Buffer {
  return start === 0 ? dn.norm : dn.norm.subarray(normStart(dn, start));
}

function normStart(dn: Dn, rdnIndex: number): number {
  let start = 0;
  for (let i = 0; i < rdnIndex; i++) start += dn.rdns[i]!.norm.length + 1;
  return start;
}

/** Returns `Dn.norm` of `dn` without its first RDNs as a map key. */
export function normText(dn: Dn, rdnIndex: number): string {
  const start = normStart(dn, rdnIndex);
  return start > dn.norm.length ? '' : dn.norm.toString('latin1', start);
}

/** Returns the index of the first RDN of the suffix at or above `dn`; -1 if `dn` is below no suffix. */
export function suffixRdnIndex({ rdns, norm }: Dn, suffixes: readonly Dn[]): number {
  for (let i = 0; i < suffixes.length; i++) {
    const suffix = suffixes[i]!;
    const start = norm.length - suffix.norm.length;
    if (start < 0 || (start > 0 && norm[start - 1] !== COMMA)) continue;
    if (sameBytes(suffix.norm, norm, start, norm.length)) return rdns.length - suffix.rdns.length;
  }
  return -1;
}

const normTexts = new WeakMap<Node, string>();

/** Returns `Dn.norm` of a node as Latin-1. Caches the result by node. */
function cachedNormText(context: { readonly schema: Schema }, node: Node): string {
  const cached = normTexts.get(node);
  if (cached !== undefined) return cached;
  const normText = nodeNormText(context, node);
  normTexts.set(node, normText);
  return normText;
}

/** Returns `Dn.norm` of a node as Latin-1, without caching it. */
export function nodeNormText(context: { readonly schema: Schema }, node: Node): string {
  const { normRdn, parent } = node;
  // The RDN in the node was cut; the full normal form comes from the DN.
  if (normRdn.length > MAX_NORM) return context.schema.parseDnBytes(node.dn).norm.toString('latin1');
  const rdnNormText = normRdn.toString('latin1');
  return !parent || parent.dn.length === 0 ? rdnNormText : `${rdnNormText},${cachedNormText(context, parent)}`;
}
