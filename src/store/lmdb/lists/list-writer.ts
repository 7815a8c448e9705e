import { compareRuns } from '../../../bytes/compare.js';
import { EMPTY } from '../../row.js';
import type { Db } from '../file/database.js';
import { getVerified, type LmdbTable } from '../file/lmdb-table.js';
import { copyOf, viewOf } from '../file/read-buffer.js';
import { withCheck } from '../record/check.js';
import { firstSegmentKey } from '../rows/segments.js';
import {
  blockKey,
  blockRoom,
  headLength,
  headLengthIn,
  Lists,
  lowerBoundIn,
  mayHaveBlocks,
  recordRoom,
  suffixesInBlocks,
} from './lists.js';

const SCRATCH_BYTES = 4096;
/** Shorter runs are copied byte by byte, because `copy` costs as much as a loop over this many bytes. */
const SHORT = 128;

/** Two runs of rising suffixes: to add to a list and to remove from it. */
interface Changes {
  readonly added: Buffer;
  readonly removed: Buffer;
}

/** A list while it is changed. */
interface OpenList {
  /** Key of the first block. */
  readonly first: Buffer;
  /** Number of suffixes in blocks. */
  count: number;
  /** The suffixes in the record. */
  tail: Buffer;
}

/** Changes the lists of one table, inside write transactions. */
export class ListWriter {
  readonly #table: LmdbTable;
  readonly #suffix: number;
  readonly #room: number;
  readonly #maxKey: number;
  readonly #lists: Lists;
  readonly #records: Db;
  readonly #blocks: Db;
  /** Buffer for records that only grow: the most frequent change leaves no garbage. */
  readonly #scratch = Buffer.allocUnsafe(SCRATCH_BYTES);

  constructor(table: LmdbTable, maxKey: number) {
    this.#table = table;
    this.#lists = new Lists(table, undefined);
    this.#suffix = this.#lists.suffix;
    this.#room = blockRoom(this.#suffix);
    this.#maxKey = maxKey;
    this.#records = table.rows;
    this.#blocks = table.blocks!.rows;
  }

  /** Changes the list of the prefix. `added` and `removed` rise and are disjoint. Returns whether the list existed. */
  change(prefix: Buffer, added: Buffer, removed: Buffer): boolean {
    const n = this.#suffix;
    const found = this.#lists.record(prefix);
    // Absence is not proved when suffixes are only added: the proof would cost more than the write
    // (docs/lab/trials.md).
    if (!found && removed.length > 0) this.#lists.proveAbsent(prefix);
    if (found && removed.length === 0 && this.#append(prefix, found, added)) return true;
    const record = found ? copyOf(found, found.length) : EMPTY;
    const head = headLengthIn(record.length, n);
    const list = {
      first: firstSegmentKey(prefix),
      count: head ? suffixesInBlocks(record) : 0,
      tail: record.subarray(head),
    };
    let changes: Changes = { added, removed };
    if (head) {
      const lower = this.#changesBelow(changes, list.tail);
      this.#changeBlocks(list, lower);
      changes = without(changes, lower);
    }
    list.tail = merge(list.tail, changes, n);
    if (list.count > 0 && list.tail.length < record.length - head) this.#refill(list);
    this.#write(prefix, list, found !== undefined);
    return found !== undefined;
  }

  /** Appends the suffixes to the record if they are greater than its suffixes and there is room; else returns false. */
  #append(prefix: Buffer, record: Buffer, added: Buffer): boolean {
    const n = this.#suffix;
    const { length } = record;
    const scratch = this.#scratch;
    if (length + added.length > scratch.length || length + added.length > recordRoom(prefix.length, n)) return false;
    if (compareRuns(record, length - n, length, added, 0, n) >= 0) return false;
    if (length > SHORT) viewOf(record).copy(scratch, 0, 0, length);
    else for (let i = 0; i < length; i++) scratch[i] = record[i]!;
    added.copy(scratch, length);
    this.#put(this.#records, prefix, scratch.subarray(0, length + added.length));
    return true;
  }

  #write(prefix: Buffer, list: OpenList, before: boolean): void {
    const n = this.#suffix;
    const room = recordRoom(prefix.length, n) - headLength(n);
    if (list.tail.length > room && mayHaveBlocks(prefix.length, n, this.#maxKey)) this.#spill(list);
    const { count, tail } = list;
    if (count > 0) this.#put(this.#records, prefix, Buffer.concat([headOf(count, n), tail]));
    else if (tail.length > 0) this.#put(this.#records, prefix, tail);
    else if (before) this.#records.removeSync(prefix);
  }

  /** Moves all suffixes of the record but the last into full blocks, behind the suffixes of the last block. */
  #spill(list: OpenList): void {
    const end = list.tail.length - this.#suffix;
    const run = list.tail.subarray(0, end);
    const key = list.count > 0 ? this.#lastBlock(list) : list.first;
    const block = this.#block(key);
    this.#putBlocks(list, key, block ? Buffer.concat([block, run]) : run, this.#room);
    list.count += run.length / this.#suffix;
    list.tail = list.tail.subarray(end);
  }

  /** Moves the last block into the record if both are small or the record has no suffix left. */
  #refill(list: OpenList): void {
    const { tail } = list;
    if (list.count === 0 || tail.length >= this.#room >> 3) return;
    const key = this.#lastBlock(list);
    const block = this.#block(key)!;
    if (tail.length > 0 && block.length + tail.length > this.#room >> 2) return;
    this.#blocks.removeSync(key);
    list.count -= block.length / this.#suffix;
    list.tail = Buffer.concat([block, tail]);
  }

  #put(db: Db, key: Buffer, run: Buffer): void {
    db.putSync(key, withCheck(key, run));
  }

  #block(key: Buffer): Buffer | undefined {
    const block = getVerified(this.#table, this.#blocks, key);
    return block && copyOf(block, block.length);
  }

  #lastBlock({ first }: OpenList): Buffer {
    const key = this.#lists.lastBlock(first);
    if (!key) throw this.#lists.damaged(first.subarray(2));
    return key;
  }

  /** The changes below the first suffix of `tail`. */
  #changesBelow({ added, removed }: Changes, tail: Buffer): Changes {
    const n = this.#suffix;
    const bound = tail.subarray(0, n);
    return {
      added: added.subarray(0, lowerBoundIn(added, 0, added.length, n, bound)),
      removed: removed.subarray(0, lowerBoundIn(removed, 0, removed.length, n, bound)),
    };
  }

  #changeBlocks(list: OpenList, all: Changes): void {
    const n = this.#suffix;
    let left = all;
    while (left.added.length + left.removed.length > 0) {
      const key = this.#lists.blockOf(list.first, lowestSuffix(left, n)) ?? list.first;
      const next = this.#lists.nextBlock(list.first, key);
      const here = next ? this.#changesBelow(left, next.subarray(list.first.length)) : left;
      this.#changeBlock(list, key, next, here);
      left = without(left, here);
    }
  }

  #changeBlock(list: OpenList, key: Buffer, next: Buffer | undefined, changes: Changes): void {
    const n = this.#suffix;
    const room = this.#room;
    const before = this.#block(key) ?? EMPTY;
    let after = merge(before, changes, n);
    list.count += (after.length - before.length) / n;
    if (next && after.length < before.length && after.length < room >> 2) after = this.#joinNext(after, next);
    const parts = Math.ceil(after.length / room);
    if (parts === 0) this.#blocks.removeSync(key);
    else this.#putBlocks(list, key, after, Math.ceil(after.length / n / parts) * n);
  }

  /** Returns the run, joined with the next block if both are small. */
  #joinNext(run: Buffer, next: Buffer): Buffer {
    const neighbour = this.#block(next)!;
    if (run.length + neighbour.length > this.#room >> 1) return run;
    this.#blocks.removeSync(next);
    return Buffer.concat([run, neighbour]);
  }

  /** Writes blocks of `size` bytes, the first under `key`, the others under keys made from their first suffixes. */
  #putBlocks({ first }: OpenList, key: Buffer, run: Buffer, size: number): void {
    const n = this.#suffix;
    for (let at = 0; at < run.length; at += size) {
      const name = at === 0 ? key : blockKey(first, run.subarray(at, at + n), n);
      this.#put(this.#blocks, name, run.subarray(at, at + size));
    }
  }
}

function headOf(count: number, suffix: number): Buffer {
  const head = Buffer.alloc(headLength(suffix));
  head.writeUInt32BE(count);
  return head;
}

function lowestSuffix({ added, removed }: Changes, n: number): Buffer {
  const a = added.subarray(0, n);
  const b = removed.subarray(0, n);
  if (a.length === 0) return b;
  return b.length === 0 || Buffer.compare(a, b) < 0 ? a : b;
}

function without(all: Changes, done: Changes): Changes {
  return { added: all.added.subarray(done.added.length), removed: all.removed.subarray(done.removed.length) };
}

/** Returns the run with the changes applied. */
function merge(run: Buffer, { added, removed }: Changes, n: number): Buffer {
  const end = run.length;
  if (removed.length === 0) {
    if (added.length === 0) return run;
    if (end === 0) return added;
    if (run.compare(added, 0, n, end - n, end) < 0) return Buffer.concat([run, added]);
  }
  const out = Buffer.allocUnsafe(end + added.length);
  let at = 0;
  let to = 0;
  for (let a = 0, r = 0; a < added.length || r < removed.length; ) {
    const adds = r === removed.length || (a < added.length && added.compare(removed, r, r + n, a, a + n) < 0);
    const suffix = adds ? added.subarray(a, a + n) : removed.subarray(r, r + n);
    const place = lowerBoundIn(run, at, end, n, suffix);
    to += run.copy(out, to, at, place);
    at = place < end && run.compare(suffix, 0, n, place, place + n) === 0 ? place + n : place;
    if (adds) {
      to += suffix.copy(out, to);
      a += n;
    } else r += n;
  }
  to += run.copy(out, to, at, end);
  return out.subarray(0, to);
}
