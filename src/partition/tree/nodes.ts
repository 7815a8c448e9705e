import { sameBytes } from '../../bytes/compare.js';
import { BoundedMap } from '../../cache/bounded-map.js';
import type { Dn, Rdn } from '../../schema/schema-types.js';
import type { Maybe, Reader } from '../../store/contract.js';
import { chain, isPromise } from '../../store/maybe.js';
import { cellValue } from '../../store/row.js';
import type { Node } from '../model/node.js';
import {
  cutNorm,
  MASTER_TABLE,
  normRdnOf,
  parentIdOf,
  Q,
  ROOT_ID,
  TREE,
  TREE_TABLE,
  treeKey,
  upRdnOf,
} from '../model/tables.js';

/** The virtual root. */
export const ROOT: Node = { id: ROOT_ID, parent: undefined, normRdn: Buffer.alloc(0), dn: Buffer.alloc(0) };

/** Key of a node's tree row. */
export function nodeTreeKey(node: Node): Buffer {
  return treeKey((node.parent ?? ROOT).id, node.normRdn);
}

export function joinDn(rdn: Buffer, parent: Buffer): Buffer {
  return joinDnAt(rdn, 0, rdn.length, parent);
}

/** `joinDn` of the RDN in `bytes[start, end)`. */
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

/** Node of an entry whose master row is at hand. */
export function makeNode(id: Buffer, row: Buffer, parent: Node): Node {
  return { id, parent, normRdn: Buffer.from(normRdnOf(row)), dn: joinDn(upRdnOf(row), parent.dn) };
}

/** Node of an entry just read: few ask for its DN. Not to be kept, as it holds the row. */
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

/** Whether `node` is `ancestor` or lies below it. */
export function isWithin(node: Node, ancestor: Node): boolean {
  for (let n: Node | undefined = node; n; n = n.parent) if (n === ancestor) return true;
  // The same entry may have nodes of two times.
  for (let n: Node | undefined = node; n; n = n.parent) if (n.id.equals(ancestor.id)) return true;
  return false;
}

const MAX_NODES = 200_000;
/** Bytes of a normalized name, at most, that is looked up or kept on the way to another one. */
const MAX_PASSED = 1024;

/** An entry on the way down to a DN. */
export interface Reached {
  readonly node: Node;
  /** The RDN of the DN that names it. */
  readonly at: number;
  /** Bytes of its normalized name. */
  readonly length: number;
}

/**
 * Nodes of entries that have others below them, by UUID and by normalized DN: parents' DNs repeat, so they are kept.
 *
 * It holds while other processes and front ends rename: every plan that renames or moves an entry, or that changes
 * which entries are aliases or referrals, adds to the counter `treeVersion` of the shared row, and `SharedState.fresh`
 * clears the cache when that row has changed. Deletes need no such mark: an entry with children cannot be deleted, and
 * whoever uses a cached node as an entry reads its row and finds it gone; whoever finds nothing below a cached node
 * looks whether it is still there, for its name may be another entry's by now (`findEntry`, `search`).
 *
 * A store may answer late: what was asked for before the cache was cleared is not kept when it arrives after.
 */
export class NodeCache {
  readonly #store: Reader;
  readonly #byId = new BoundedMap<string, Node>(MAX_NODES);
  readonly #byDn = new BoundedMap<string, Node>(MAX_NODES);
  #era = 0;
  /** Found last by `byIdAt`: candidates that follow each other mostly have one parent. */
  #last: Node = ROOT;
  /**
   * The RDN of the one found last by `byDn`. DNs that were parsed below one ancestor share its RDNs, so an RDN stands
   * for all behind it. It saves a short search a twentieth of its time.
   */
  #lastRdn: Rdn | undefined;
  #lastNamed: Node | undefined;

  constructor(store: Reader) {
    this.#store = store;
  }

  clear(): void {
    this.#byId.clear();
    this.#last = ROOT;
    this.#forgetNames();
    this.#era++;
  }

  #forgetNames(): void {
    this.#byDn.clear();
    this.#lastRdn = this.#lastNamed = undefined;
  }

  /** Number of the times it was cleared. */
  get era(): number {
    return this.#era;
  }

  /**
   * The node of an entry, from its id upward; undefined when it or an ancestor is not there (being deleted or moved:
   * read again).
   */
  byId(id: Buffer, era = this.#era): Maybe<Node | undefined> {
    const cached = this.#byId.get(id.toString('latin1', 0, 16));
    if (cached) return cached;
    if (id.equals(ROOT_ID)) return ROOT;
    return this.#load(id, era);
  }

  /** As `byId`, of the id at `row[start, start + 16)`. */
  byIdAt(row: Buffer, start: number): Maybe<Node | undefined> {
    if (sameBytes(this.#last.id, row, start, start + 16)) return this.#last;
    const cached = this.#byId.get(row.toString('latin1', start, start + 16));
    if (cached) this.#last = cached;
    return cached ?? this.byId(Buffer.from(row.subarray(start, start + 16)));
  }

  #load(id: Buffer, era: number): Maybe<Node | undefined> {
    const row = this.#store.getHead(MASTER_TABLE.name, id, true);
    return isPromise(row) ? row.then((r) => this.#withParent(id, r, era)) : this.#withParent(id, row, era);
  }

  #withParent(id: Buffer, row: Buffer | undefined, era: number): Maybe<Node | undefined> {
    if (!row) return undefined;
    const parent = this.byId(Buffer.from(parentIdOf(row)), era);
    return isPromise(parent) ? parent.then((p) => this.#keep(id, row, p, era)) : this.#keep(id, row, parent, era);
  }

  #keep(id: Buffer, row: Buffer, parent: Node | undefined, era: number): Node | undefined {
    if (!parent) return undefined;
    const node = makeNode(Buffer.from(id), row, parent);
    if (era !== this.#era) return node;
    this.#byId.set(node.id.toString('latin1', 0, 16), node);
    return node;
  }

  /** The node at `dn.rdns[from…]`; undefined when it is not there. */
  byDn(dn: Dn, from: number, suffixes: readonly Dn[], era = this.#era): Maybe<Node | undefined> {
    if (from >= dn.rdns.length) return ROOT;
    const rdn = dn.rdns[from]!;
    if (rdn === this.#lastRdn) return this.#lastNamed;
    const cached = this.#byDn.get(normText(dn, from));
    if (cached) {
      this.#lastRdn = rdn;
      this.#lastNamed = cached;
      return cached;
    }
    return chain(this.deepest(dn, from, suffixes, era), (found) => (found?.at === from ? found.node : undefined));
  }

  /**
   * How far the way down to `dn.rdns[from…]` leads: the last entry on it. It is found by walking the tree table from
   * the nearest name that is known, else from the suffix, one get a name, and the first name that is not there ends
   * it. Undefined when there is not even the suffix.
   */
  deepest(dn: Dn, from: number, suffixes: readonly Dn[], era = this.#era): Maybe<Reached | undefined> {
    const top = suffixAt(dn, suffixes);
    if (top < from) return undefined;
    return this.#descend(dn, from, top, this.#nearest(dn, from), era);
  }

  #descend(dn: Dn, from: number, top: number, known: Reached | undefined, era: number): Maybe<Reached | undefined> {
    let last = known;
    for (let at = (known ? known.at : top + 1) - 1; at >= from; at--) {
      const norm = at === top ? normFrom(dn, top) : dn.rdns[at]!.norm;
      const length = last ? last.length + 1 + norm.length : norm.length;
      const node = this.#child(last ? last.node : ROOT, cutNorm(norm), era);
      if (isPromise(node)) {
        const above = last;
        return node.then((n) =>
          n ? this.#descend(dn, from, top, this.#named(dn, from, at, length, n, era), era) : above,
        );
      }
      if (!node) return last;
      last = this.#named(dn, from, at, length, node, era);
    }
    return last;
  }

  #named(dn: Dn, from: number, at: number, length: number, node: Node, era: number): Reached {
    const isKept = at === from || length <= MAX_PASSED;
    if (isKept && era === this.#era) this.#byDn.set(dn.norm.toString('latin1', dn.norm.length - length), node);
    return { node, at, length };
  }

  /** The cached node that `byDn` would start its walk from. */
  cached(dn: Dn, from: number): Node | undefined {
    return this.#nearest(dn, from)?.node;
  }

  #nearest(dn: Dn, from: number): Reached | undefined {
    if (from >= dn.rdns.length) return undefined;
    let length = normFrom(dn, from).length;
    for (let at = from; at < dn.rdns.length; at++) {
      if (at === from || length <= MAX_PASSED) {
        const node = this.#byDn.get(dn.norm.toString('latin1', dn.norm.length - length));
        if (node) return { node, at, length };
      }
      length -= dn.rdns[at]!.norm.length + 1;
    }
    return undefined;
  }

  #child(parent: Node, normRdn: Buffer, era: number): Maybe<Node | undefined> {
    const id = childId(this.#store, parent, normRdn);
    if (isPromise(id)) return id.then((i) => i && this.byId(i, era));
    return id && this.byId(id, era);
  }
}

/** Id of the entry named `normRdn` (cut) right below `parent`, or undefined. */
export function childId(store: Reader, parent: Node, normRdn: Buffer): Maybe<Buffer | undefined> {
  const row = store.getHead(TREE_TABLE.name, treeKey(parent.id, normRdn), true);
  return isPromise(row) ? row.then(idOf) : idOf(row);
}

function idOf(treeRow: Buffer | undefined): Buffer | undefined {
  return treeRow && cellValue(treeRow, TREE.treeInfo, Q.id);
}

/** The normalized bytes of `dn` without its first `from` RDNs. */
function normFrom(dn: Dn, from: number): Buffer {
  return from === 0 ? dn.norm : dn.norm.subarray(normStart(dn, from));
}

function normStart(dn: Dn, from: number): number {
  let start = 0;
  for (let i = 0; i < from; i++) start += dn.rdns[i]!.norm.length + 1;
  return start;
}

/** The normalized text of `dn` without its first `from` RDNs, as a map key. */
export function normText(dn: Dn, from: number): string {
  const start = normStart(dn, from);
  return start > dn.norm.length ? '' : dn.norm.toString('latin1', start);
}

/** At which of its RDNs the suffix begins that `dn` is or lies below; -1 when there is none. */
export function suffixAt({ rdns, norm }: Dn, suffixes: readonly Dn[]): number {
  for (let i = 0; i < suffixes.length; i++) {
    const suffix = suffixes[i]!;
    const start = norm.length - suffix.norm.length;
    if (start < 0 || (start > 0 && norm[start - 1] !== COMMA)) continue;
    if (sameBytes(suffix.norm, norm, start, norm.length)) return rdns.length - suffix.rdns.length;
  }
  return -1;
}
