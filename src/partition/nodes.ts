import type { Dn } from '../schema/types.js';
import type { Maybe, Reader } from '../store/contract.js';
import { isPromise } from '../store/maybe.js';
import { cellValue } from '../store/row.js';
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
} from './tables.js';

/** An entry's place in the tree: what of it is needed to name and to find what is below. */
export interface Node {
  readonly id: Buffer;
  readonly parent: Node | undefined;
  /** As in the row (cut). */
  readonly normRdn: Buffer;
  /** DN as given, UTF-8. */
  readonly dn: Buffer;
}

/** The virtual root. */
export const ROOT: Node = { id: ROOT_ID, parent: undefined, normRdn: Buffer.alloc(0), dn: Buffer.alloc(0) };

/** Key of a node's tree row. */
export function nodeTreeKey(node: Node): Buffer {
  return treeKey((node.parent ?? ROOT).id, node.normRdn);
}

export function joinDn(rdn: Buffer, parent: Buffer): Buffer {
  if (parent.length === 0) return Buffer.from(rdn);
  const dn = Buffer.allocUnsafe(rdn.length + 1 + parent.length);
  dn.set(rdn, 0);
  dn[rdn.length] = 0x2c;
  dn.set(parent, rdn.length + 1);
  return dn;
}

/** Node of an entry whose master row is at hand. */
export function makeNode(id: Buffer, row: Buffer, parent: Node): Node {
  const upRdn = upRdnOf(row);
  return { id, parent, normRdn: Buffer.from(normRdnOf(row)), dn: joinDn(upRdn, parent.dn) };
}

/** Whether `node` is `ancestor` or lies below it. */
export function isWithin(node: Node, ancestor: Node): boolean {
  for (let n: Node | undefined = node; n; n = n.parent) if (n === ancestor || n.id.equals(ancestor.id)) return true;
  return false;
}

const MAX_NODES = 200_000;

/**
 * Nodes of entries that have others below them, by UUID and by normalized DN: parents' DNs repeat, so they are kept.
 *
 * It holds while other processes and front ends rename: every plan that renames or moves an entry, or that changes
 * which entries are aliases or referrals, adds to the counter `treeVersion` of the shared row, and `SharedState.fresh`
 * clears the cache when that row has changed. Deletes need no such mark: an entry with children cannot be deleted, and
 * whoever uses a cached node as an entry reads its row and finds it gone; whoever finds nothing below a cached node
 * looks whether it is still there, for its name may be another entry's by now (`findEntry`, `search`).
 */
export class NodeCache {
  readonly #store: Reader;
  readonly #byId = new Map<string, Node>();
  readonly #byDn = new Map<string, Node>();
  #flags: { readonly aliases: boolean; readonly referrals: boolean } | undefined;

  constructor(store: Reader) {
    this.#store = store;
  }

  clear(): void {
    this.#byId.clear();
    this.#byDn.clear();
    this.#flags = undefined;
  }

  /** Whether there is any alias and any referral entry; `learn` asks the indexes once a tree version. */
  get flags(): { readonly aliases: boolean; readonly referrals: boolean } | undefined {
    return this.#flags;
  }
  set flags(value: { readonly aliases: boolean; readonly referrals: boolean } | undefined) {
    this.#flags = value;
  }

  /** The node of an entry, from its id upward; undefined when it or an ancestor is not there (being deleted or moved: read again). */
  byId(id: Buffer): Maybe<Node | undefined> {
    const cached = this.#byId.get(id.toString('latin1', 0, 16));
    if (cached) return cached;
    if (id.equals(ROOT_ID)) return ROOT;
    return this.#load(id);
  }

  /** As `byId`, of the id at `row[start, start + 16)`. */
  byIdAt(row: Buffer, start: number): Maybe<Node | undefined> {
    return (
      this.#byId.get(row.toString('latin1', start, start + 16)) ??
      this.byId(Buffer.from(row.subarray(start, start + 16)))
    );
  }

  #load(id: Buffer): Maybe<Node | undefined> {
    const row = this.#store.get(MASTER_TABLE.name, id);
    return isPromise(row) ? row.then((r) => this.#withParent(id, r)) : this.#withParent(id, row);
  }

  #withParent(id: Buffer, row: Buffer | undefined): Maybe<Node | undefined> {
    if (!row) return undefined;
    const parent = this.byId(Buffer.from(parentIdOf(row)));
    return isPromise(parent) ? parent.then((p) => this.#keep(id, row, p)) : this.#keep(id, row, parent);
  }

  #keep(id: Buffer, row: Buffer, parent: Node | undefined): Node | undefined {
    if (!parent) return undefined;
    const node = makeNode(Buffer.from(id), row, parent);
    if (this.#byId.size >= MAX_NODES) this.#byId.clear();
    this.#byId.set(node.id.toString('latin1', 0, 16), node);
    return node;
  }

  /**
   * The node at `dn.rdns[from…]`, found by walking the tree table from the suffix, one get a name.
   * `undefined` when it is not there; `deepest` tells how far one gets.
   */
  byDn(dn: Dn, from: number, suffixes: ReadonlySet<string>): Maybe<Node | undefined> {
    if (from >= dn.rdns.length) return ROOT;
    const key = normText(dn, from);
    const cached = this.#byDn.get(key);
    if (cached) return cached;
    if (suffixes.has(key)) return this.#child(key, ROOT, cutNorm(Buffer.from(key, 'latin1')));
    const parent = this.byDn(dn, from + 1, suffixes);
    if (isPromise(parent))
      return parent.then((p) => (p && p !== ROOT ? this.#child(key, p, cutNorm(dn.rdns[from]!.norm)) : undefined));
    return parent && parent !== ROOT ? this.#child(key, parent, cutNorm(dn.rdns[from]!.norm)) : undefined;
  }

  /** The cached node that `byDn` would start its walk from. */
  cached(dn: Dn, from: number): Node | undefined {
    for (let i = from; i < dn.rdns.length; i++) {
      const node = this.#byDn.get(normText(dn, i));
      if (node) return node;
    }
    return undefined;
  }

  #child(key: string, parent: Node, normRdn: Buffer): Maybe<Node | undefined> {
    const id = childId(this.#store, parent, normRdn);
    if (isPromise(id)) return id.then((i) => this.#named(key, i && this.byId(i)));
    return this.#named(key, id && this.byId(id));
  }

  #named(key: string, node: Maybe<Node | undefined>): Maybe<Node | undefined> {
    if (isPromise(node)) return node.then((n) => this.#named(key, n));
    if (node) {
      if (this.#byDn.size >= MAX_NODES) this.#byDn.clear();
      this.#byDn.set(key, node);
    }
    return node;
  }
}

/** Id of the entry named `normRdn` (cut) right below `parent`, or undefined. */
export function childId(store: Reader, parent: Node, normRdn: Buffer): Maybe<Buffer | undefined> {
  const row = store.get(TREE_TABLE.name, treeKey(parent.id, normRdn));
  return isPromise(row) ? row.then(idOf) : idOf(row);
}

function idOf(treeRow: Buffer | undefined): Buffer | undefined {
  return treeRow && cellValue(treeRow, TREE.treeInfo, Q.id);
}

/** The normalized text of `dn` without its first `from` RDNs, as a map key. */
export function normText(dn: Dn, from: number): string {
  let start = 0;
  for (let i = 0; i < from; i++) start += dn.rdns[i]!.norm.length + 1;
  return start > dn.norm.length ? '' : dn.norm.toString('latin1', start);
}
