import { compareRuns } from '../../../bytes/compare.js';
import { PAGE_BYTES, PAGE_HEADER_BYTES } from './pages.js';

/*
 * Layout of a page of a tree (docs/formats/lmdb.md): number u64 │ transaction u64 │ u16 │ kind u16 │ lower u16 │ upper
 * u16 │ offsets of the nodes │ free room │ nodes. Offsets count from the end of the header. Layout of a node: child
 * page (48 bits), or length of the value u32 and flags u16 │ key length u16 │ key │ value.
 */
export const BRANCH_PAGE = 1;
export const LEAF_PAGE = 2;
export const OVERFLOW_PAGE = 4;
/** Flag of a node whose value lies in overflow pages. */
export const BIG_FLAG = 1;
/** Flag of a node whose value is the record of a database. */
export const SUBDATA_FLAG = 2;
/** Bytes in place of the value in a node whose value lies in overflow pages. */
export const OVERFLOW_REF_BYTES = 24;

const KIND_AT = 18;
const LOWER_AT = 20;
const UPPER_AT = 22;
const NODE_HEADER = 8;
const NODE_ROOM = PAGE_BYTES - PAGE_HEADER_BYTES;

/** A key: `bytes[start, start + length)`. */
export interface KeyRun {
  readonly bytes: Buffer;
  readonly start: number;
  readonly length: number;
}

/** Requirements for the pages of one tree. */
export interface TreeRules {
  /** Whether keys are little-endian u64. */
  readonly integerKeys: boolean;
  readonly maxKey: number;
  /** Minimum number of nodes of a branch page. */
  readonly minBranchNodes: number;
  /** The allowed flags of leaf nodes. */
  readonly leafFlags: readonly number[];
  /** The transaction that wrote the checked state: no page may be newer. */
  readonly newestTransaction: number;
}

/** Reads a u64. A value above 2⁵³ is rounded, but stays above all numbers with which it is compared. */
export function u64(bytes: Buffer, offset: number): number {
  return bytes.readUInt32LE(offset) + bytes.readUInt32LE(offset + 4) * 0x1_0000_0000;
}

/** Returns the problem of a page header, except of `lower` and `upper`; empty if there is none. */
export function headerProblem(bytes: Buffer, offset: number, page: number, kind: number, newest: number): string {
  const number = u64(bytes, offset);
  if (number !== page) return `calls itself page ${number}`;
  const pageKind = bytes.readUInt16LE(offset + KIND_AT);
  if (pageKind !== kind) return `is of kind ${pageKind}, where one of kind ${kind} belongs`;
  const transaction = u64(bytes, offset + 8);
  return transaction > newest ? `is of transaction ${transaction}, which was not yet` : '';
}

/** Number of pages of a value in overflow pages, according to its first overflow page. */
export function overflowCount(bytes: Buffer, offset: number): number {
  return bytes.readUInt32LE(offset + LOWER_AT);
}

/** Checks one page of a tree at a time. If `check` finds no problem, the node accessors return the page's contents. */
export class PageCheck {
  /** The page that was checked last begins at offset `at` of `bytes` and has `count` nodes. */
  bytes: Buffer = Buffer.alloc(0);
  at = 0;
  count = 0;
  /** Length of the node at each offset; the index is half the offset. */
  readonly #nodeLengths = new Uint16Array(NODE_ROOM / 2 + 1);

  /** Returns the problem of the page at `at`; empty if there is none. The keys must lie in [low, high). */
  check(bytes: Buffer, at: number, page: number, leaf: boolean, rules: TreeRules, low?: KeyRun, high?: KeyRun): string {
    this.bytes = bytes;
    this.at = at;
    return (
      headerProblem(bytes, at, page, leaf ? LEAF_PAGE : BRANCH_PAGE, rules.newestTransaction) ||
      this.#boundsProblem(leaf, rules) ||
      this.#nodesProblem(leaf, rules) ||
      this.#orderProblem(leaf, rules, low, high)
    );
  }

  #boundsProblem(leaf: boolean, { minBranchNodes }: TreeRules): string {
    const lower = this.bytes.readUInt16LE(this.at + LOWER_AT);
    const upper = this.bytes.readUInt16LE(this.at + UPPER_AT);
    if (lower % 2 !== 0 || upper % 2 !== 0 || lower > upper || upper > NODE_ROOM)
      return `has its free room from ${lower} to ${upper} of ${NODE_ROOM} bytes`;
    this.count = lower / 2;
    const minNodes = leaf ? 1 : minBranchNodes;
    return this.count < minNodes ? `has ${this.count} nodes, at least ${minNodes} belong there` : '';
  }

  /** The nodes must fill the page behind the free room, without gaps. */
  #nodesProblem(leaf: boolean, rules: TreeRules): string {
    const lengths = this.#nodeLengths;
    const upper = this.bytes.readUInt16LE(this.at + UPPER_AT);
    let problem = '';
    for (let i = 0; i < this.count && problem === ''; i++) problem = this.#nodeProblem(i, upper, leaf, rules);
    let end = upper;
    let nodeCount = 0;
    for (; problem === '' && end < NODE_ROOM; nodeCount++) {
      const length = lengths[end / 2]!;
      if (length === 0) problem = `has no node at offset ${end}`;
      end += length;
    }
    if (problem === '' && (nodeCount !== this.count || end !== NODE_ROOM))
      problem = `has ${this.count} nodes, of which ${nodeCount} lie one behind the other`;
    lengths.fill(0, upper / 2);
    return problem;
  }

  #nodeProblem(i: number, upper: number, leaf: boolean, rules: TreeRules): string {
    const offset = this.#nodePointer(i);
    if (offset % 2 !== 0 || offset < upper || offset > NODE_ROOM - NODE_HEADER)
      return `has node ${i} at offset ${offset}`;
    const keyLength = this.keyLength(i);
    // The first key of a branch page is not used: it stands for all smaller keys.
    const minKey = !leaf && i === 0 ? 0 : rules.integerKeys ? rules.maxKey : 1;
    if (keyLength < minKey || keyLength > rules.maxKey) return `has a key of ${keyLength} bytes in node ${i}`;
    if (leaf && !rules.leafFlags.includes(this.flags(i))) return `has flags ${this.flags(i)} in node ${i}`;
    const value = leaf ? (this.hasBigValue(i) ? OVERFLOW_REF_BYTES : this.valueLength(i)) : 0;
    const length = NODE_HEADER + keyLength + value;
    if (offset + length > NODE_ROOM) return `has node ${i} at offset ${offset}, of ${length} bytes, beyond its end`;
    if (this.#nodeLengths[offset / 2] !== 0) return `has two nodes at offset ${offset}`;
    this.#nodeLengths[offset / 2] = length + (length % 2);
    return '';
  }

  #orderProblem(leaf: boolean, { integerKeys }: TreeRules, low: KeyRun | undefined, high: KeyRun | undefined): string {
    const firstNode = leaf ? 0 : 1;
    const { bytes } = this;
    const compare = integerKeys ? compareIntegers : compareRuns;
    for (let i = firstNode + 1; i < this.count; i++) {
      if (
        compare(bytes, this.keyStart(i - 1), this.valueStart(i - 1), bytes, this.keyStart(i), this.valueStart(i)) >= 0
      ) {
        return `has keys that do not rise, in node ${i}`;
      }
    }
    const compareTo = (i: number, key: KeyRun) =>
      compare(bytes, this.keyStart(i), this.valueStart(i), key.bytes, key.start, key.start + key.length);
    if (low && compareTo(firstNode, low) < 0) return 'has keys that are smaller than the page above allows';
    if (high && compareTo(this.count - 1, high) >= 0) return 'has keys that are greater than the page above allows';
    return '';
  }

  /** Returns the stored pointer to node `i`, counted from the end of the page header. */
  #nodePointer(i: number): number {
    return this.bytes.readUInt16LE(this.at + PAGE_HEADER_BYTES + 2 * i);
  }

  /** Offset of node `i` in `bytes`. */
  #nodeStart(i: number): number {
    return this.at + PAGE_HEADER_BYTES + this.#nodePointer(i);
  }

  keyStart(i: number): number {
    return this.#nodeStart(i) + NODE_HEADER;
  }

  keyLength(i: number): number {
    return this.bytes.readUInt16LE(this.#nodeStart(i) + 6);
  }

  key(i: number): Buffer {
    return this.bytes.subarray(this.keyStart(i), this.valueStart(i));
  }

  flags(i: number): number {
    return this.bytes.readUInt16LE(this.#nodeStart(i) + 4);
  }

  hasBigValue(i: number): boolean {
    return (this.flags(i) & BIG_FLAG) !== 0;
  }

  /** Length of the value, whether in the node or in overflow pages. */
  valueLength(i: number): number {
    return this.bytes.readUInt32LE(this.#nodeStart(i));
  }

  valueStart(i: number): number {
    return this.keyStart(i) + this.keyLength(i);
  }

  childPage(i: number): number {
    return this.bytes.readUIntLE(this.#nodeStart(i), 6);
  }
}

/** Compares two little-endian u64 keys; same parameters as `compareRuns`. */
function compareIntegers(a: Uint8Array, from: number, _to: number, b: Uint8Array, start: number, _end: number): number {
  for (let i = 7; i >= 0; i--) {
    const difference = a[from + i]! - b[start + i]!;
    if (difference !== 0) return difference;
  }
  return 0;
}
