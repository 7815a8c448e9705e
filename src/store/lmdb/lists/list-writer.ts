import { compareRuns } from '../../../bytes/compare.js';
import { EMPTY } from '../../row.js';
import { getVerified, type LmdbTable } from '../file/lmdb-table.js';
import { copyValue, type Db, plainView } from '../file/records.js';
import { withChecksum } from '../record/checksum.js';
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
/** Shorter byte strings are copied byte by byte, because `copy` costs as much as a loop over this many bytes. */
const MAX_LOOP_BYTES = 128;

/** Key suffixes to add to a list and to remove from it, each concatenated in rising order. */
interface SuffixChanges {
  readonly additions: Buffer;
  readonly removals: Buffer;
}

/** The list of one key prefix while it is changed. The format is described in `lists.ts`. */
interface ListDraft {
  /** Key of the first block. */
  readonly firstKey: Buffer;
  /** Number of the suffixes that are stored in blocks. */
  blockedCount: number;
  /** The suffixes that are stored in the record. */
  tail: Buffer;
}

/** Changes the lists of one table, inside write transactions. */
export class ListWriter {
  readonly #table: LmdbTable;
  readonly #suffixBytes: number;
  readonly #blockRoom: number;
  readonly #maxKey: number;
  readonly #lists: Lists;
  readonly #recordsDb: Db;
  readonly #blocksDb: Db;
  /** Buffer for records to which suffixes are appended, which is the most frequent change. */
  readonly #scratch = Buffer.allocUnsafe(SCRATCH_BYTES);

  constructor(table: LmdbTable, maxKey: number) {
    this.#table = table;
    this.#lists = new Lists(table, undefined);
    this.#suffixBytes = this.#lists.suffixBytes;
    this.#blockRoom = blockRoom(this.#suffixBytes);
    this.#maxKey = maxKey;
    this.#recordsDb = table.rows;
    this.#blocksDb = table.blocks!.rows;
  }

  /** Changes the list of the prefix. `added` and `removed` rise and are disjoint. Returns whether the list existed. */
  changeList(prefix: Buffer, added: Buffer, removed: Buffer): boolean {
    const n = this.#suffixBytes;
    const storedRecord = this.#lists.record(prefix);
    // A damaged key may hide the record of the prefix. For additions alone, a proof that no record exists would cost
    // more than the write (docs/lab/trials.md).
    if (!storedRecord && removed.length > 0) this.#lists.proveAbsent(prefix);
    if (storedRecord && removed.length === 0 && this.#appendToRecord(prefix, storedRecord, added)) return true;
    const record = storedRecord ? copyValue(storedRecord, storedRecord.length) : EMPTY;
    const headBytes = headLengthIn(record.length, n);
    const draft = {
      firstKey: firstSegmentKey(prefix),
      blockedCount: headBytes ? suffixesInBlocks(record) : 0,
      tail: record.subarray(headBytes),
    };
    let changes: SuffixChanges = { additions: added, removals: removed };
    if (headBytes) {
      const blockChanges = this.#changesBelow(changes, draft.tail);
      this.#changeBlocks(draft, blockChanges);
      changes = subtractChanges(changes, blockChanges);
    }
    draft.tail = applyChanges(draft.tail, changes, n);
    if (draft.blockedCount > 0 && draft.tail.length < record.length - headBytes) this.#moveFromBlocks(draft);
    this.#writeList(prefix, draft, storedRecord !== undefined);
    return storedRecord !== undefined;
  }

  /** Appends the suffixes to the record if they are greater than its suffixes and there is room; else returns false. */
  #appendToRecord(prefix: Buffer, record: Buffer, added: Buffer): boolean {
    const n = this.#suffixBytes;
    const { length } = record;
    const scratch = this.#scratch;
    if (length + added.length > scratch.length || length + added.length > recordRoom(prefix.length, n)) return false;
    if (compareRuns(record, length - n, length, added, 0, n) >= 0) return false;
    if (length > MAX_LOOP_BYTES) plainView(record).copy(scratch, 0, 0, length);
    else for (let i = 0; i < length; i++) scratch[i] = record[i]!;
    added.copy(scratch, length);
    this.#putChecked(this.#recordsDb, prefix, scratch.subarray(0, length + added.length));
    return true;
  }

  #writeList(prefix: Buffer, draft: ListDraft, hasRecord: boolean): void {
    const n = this.#suffixBytes;
    const room = recordRoom(prefix.length, n) - headLength(n);
    if (draft.tail.length > room && mayHaveBlocks(prefix.length, n, this.#maxKey)) this.#moveToBlocks(draft);
    const { blockedCount, tail } = draft;
    if (blockedCount > 0) this.#putChecked(this.#recordsDb, prefix, Buffer.concat([listHead(blockedCount, n), tail]));
    else if (tail.length > 0) this.#putChecked(this.#recordsDb, prefix, tail);
    else if (hasRecord) this.#recordsDb.removeSync(prefix);
  }

  /** Moves all suffixes of the record but the last into full blocks, behind the suffixes of the last block. */
  #moveToBlocks(draft: ListDraft): void {
    const end = draft.tail.length - this.#suffixBytes;
    const suffixes = draft.tail.subarray(0, end);
    const key = draft.blockedCount > 0 ? this.#lastBlockKey(draft) : draft.firstKey;
    const block = this.#readBlock(key);
    this.#putBlocks(draft, key, block ? Buffer.concat([block, suffixes]) : suffixes, this.#blockRoom);
    draft.blockedCount += suffixes.length / this.#suffixBytes;
    draft.tail = draft.tail.subarray(end);
  }

  /** Moves the last block into the record if both are small or the record has no suffix left. */
  #moveFromBlocks(draft: ListDraft): void {
    const { tail } = draft;
    if (draft.blockedCount === 0 || tail.length >= this.#blockRoom >> 3) return;
    const key = this.#lastBlockKey(draft);
    const block = this.#readBlock(key)!;
    if (tail.length > 0 && block.length + tail.length > this.#blockRoom >> 2) return;
    this.#blocksDb.removeSync(key);
    draft.blockedCount -= block.length / this.#suffixBytes;
    draft.tail = Buffer.concat([block, tail]);
  }

  #putChecked(db: Db, key: Buffer, suffixes: Buffer): void {
    db.putSync(key, withChecksum(key, suffixes));
  }

  #readBlock(key: Buffer): Buffer | undefined {
    const block = getVerified(this.#table, this.#blocksDb, key);
    return block && copyValue(block, block.length);
  }

  #lastBlockKey({ firstKey }: ListDraft): Buffer {
    const key = this.#lists.lastBlockKey(firstKey);
    if (!key) throw this.#lists.damagedError(firstKey.subarray(2));
    return key;
  }

  /** The changes below the first suffix of `tail`. */
  #changesBelow({ additions, removals }: SuffixChanges, tail: Buffer): SuffixChanges {
    const n = this.#suffixBytes;
    const bound = tail.subarray(0, n);
    return {
      additions: additions.subarray(0, lowerBoundIn(additions, 0, additions.length, n, bound)),
      removals: removals.subarray(0, lowerBoundIn(removals, 0, removals.length, n, bound)),
    };
  }

  #changeBlocks(draft: ListDraft, changes: SuffixChanges): void {
    const n = this.#suffixBytes;
    let remaining = changes;
    while (remaining.additions.length + remaining.removals.length > 0) {
      const key = this.#lists.blockKeyFor(draft.firstKey, lowestSuffix(remaining, n)) ?? draft.firstKey;
      const nextKey = this.#lists.nextBlockKey(draft.firstKey, key);
      const blockChanges = nextKey ? this.#changesBelow(remaining, nextKey.subarray(draft.firstKey.length)) : remaining;
      this.#changeBlock(draft, key, nextKey, blockChanges);
      remaining = subtractChanges(remaining, blockChanges);
    }
  }

  #changeBlock(draft: ListDraft, key: Buffer, nextKey: Buffer | undefined, changes: SuffixChanges): void {
    const n = this.#suffixBytes;
    const room = this.#blockRoom;
    const oldSuffixes = this.#readBlock(key) ?? EMPTY;
    let newSuffixes = applyChanges(oldSuffixes, changes, n);
    draft.blockedCount += (newSuffixes.length - oldSuffixes.length) / n;
    if (nextKey && newSuffixes.length < oldSuffixes.length && newSuffixes.length < room >> 2)
      newSuffixes = this.#joinNextBlock(newSuffixes, nextKey);
    const blockCount = Math.ceil(newSuffixes.length / room);
    if (blockCount === 0) this.#blocksDb.removeSync(key);
    else this.#putBlocks(draft, key, newSuffixes, Math.ceil(newSuffixes.length / n / blockCount) * n);
  }

  /** Returns the suffixes of a block, joined with those of the next block if both are small. */
  #joinNextBlock(suffixes: Buffer, nextKey: Buffer): Buffer {
    const nextBlock = this.#readBlock(nextKey)!;
    if (suffixes.length + nextBlock.length > this.#blockRoom >> 1) return suffixes;
    this.#blocksDb.removeSync(nextKey);
    return Buffer.concat([suffixes, nextBlock]);
  }

  /**
   * Writes blocks of `blockBytes` bytes, the first under `key`, the others under keys made from their first suffixes.
   */
  #putBlocks({ firstKey }: ListDraft, key: Buffer, suffixes: Buffer, blockBytes: number): void {
    const n = this.#suffixBytes;
    for (let offset = 0; offset < suffixes.length; offset += blockBytes) {
      const newKey = offset === 0 ? key : blockKey(firstKey, suffixes.subarray(offset, offset + n), n);
      this.#putChecked(this.#blocksDb, newKey, suffixes.subarray(offset, offset + blockBytes));
    }
  }
}

function listHead(count: number, suffixBytes: number): Buffer {
  const head = Buffer.alloc(headLength(suffixBytes));
  head.writeUInt32BE(count);
  return head;
}

function lowestSuffix({ additions, removals }: SuffixChanges, n: number): Buffer {
  const a = additions.subarray(0, n);
  const b = removals.subarray(0, n);
  if (a.length === 0) return b;
  return b.length === 0 || Buffer.compare(a, b) < 0 ? a : b;
}

/** Returns the changes without `applied`, which are their first additions and removals. */
function subtractChanges(changes: SuffixChanges, applied: SuffixChanges): SuffixChanges {
  return {
    additions: changes.additions.subarray(applied.additions.length),
    removals: changes.removals.subarray(applied.removals.length),
  };
}

/** Returns the suffixes with the changes applied. */
function applyChanges(suffixes: Buffer, { additions, removals }: SuffixChanges, n: number): Buffer {
  const end = suffixes.length;
  if (removals.length === 0) {
    if (additions.length === 0) return suffixes;
    if (end === 0) return additions;
    if (suffixes.compare(additions, 0, n, end - n, end) < 0) return Buffer.concat([suffixes, additions]);
  }
  const out = Buffer.allocUnsafe(end + additions.length);
  let offset = 0;
  let outEnd = 0;
  for (let a = 0, r = 0; a < additions.length || r < removals.length; ) {
    const isAddition =
      r === removals.length || (a < additions.length && additions.compare(removals, r, r + n, a, a + n) < 0);
    const suffix = isAddition ? additions.subarray(a, a + n) : removals.subarray(r, r + n);
    const position = lowerBoundIn(suffixes, offset, end, n, suffix);
    outEnd += suffixes.copy(out, outEnd, offset, position);
    offset = position < end && suffixes.compare(suffix, 0, n, position, position + n) === 0 ? position + n : position;
    if (isAddition) {
      outEnd += suffix.copy(out, outEnd);
      a += n;
    } else r += n;
  }
  outEnd += suffixes.copy(out, outEnd, offset, end);
  return out.subarray(0, outEnd);
}
