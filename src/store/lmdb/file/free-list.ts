import type { FileHandle } from 'node:fs/promises';
import { PAGE_HEADER_BYTES } from './pages.js';

/** Root page of an empty database. */
const NO_PAGE = 0xffffffffffffffffn;
/** Offsets in a page, and in a node of a page (docs/formats/lmdb.md). */
const KIND_AT = 18;
const LOWER_AT = 20;
const NODE_FLAGS_AT = 4;
const KEY_LENGTH_AT = 6;
const NODE_HEADER_BYTES = 8;
/** Page kind of a branch; flag of a node whose value has pages of its own. */
const BRANCH = 1;
const BIG_VALUE = 1;

/** What a meta page tells of the file. */
interface FileMeta {
  readonly pageSize: number;
  readonly lastPage: bigint;
  /** Root page of the free list. */
  readonly freeRoot: bigint;
}

/**
 * Returns whether all pages that a file of `size` bytes lacks are in its free list: LMDB does not write pages that a
 * transaction allocates and frees again. False if the free list cannot be read.
 */
export async function areMissingPagesFree(file: FileHandle, size: number, meta: FileMeta): Promise<boolean> {
  const { pageSize, lastPage, freeRoot } = meta;
  const filePages = Math.floor(size / pageSize);
  const readAt = async (offset: number, length: number): Promise<Buffer> => {
    if (offset + length > size) throw new RangeError('outside of the file');
    const bytes = Buffer.alloc(length);
    await file.read(bytes, 0, length, offset);
    return bytes;
  };
  let missingCount = Number(lastPage) + 1 - filePages;
  const pages = freeRoot === NO_PAGE ? [] : [Number(freeRoot)];
  try {
    for (let count = 0; pages.length > 0; count++) {
      if (count > filePages) return false;
      const page = await readAt(pages.pop()! * pageSize, pageSize);
      const isBranch = (page.readUInt16LE(KIND_AT) & BRANCH) !== 0;
      for (let i = 0; i < page.readUInt16LE(LOWER_AT); i += 2) {
        const node = page.subarray(PAGE_HEADER_BYTES + page.readUInt16LE(PAGE_HEADER_BYTES + i));
        const value = node.subarray(NODE_HEADER_BYTES + node.readUInt16LE(KEY_LENGTH_AT));
        if (isBranch) pages.push(node.readUIntLE(0, 6));
        else if ((node.readUInt16LE(NODE_FLAGS_AT) & BIG_VALUE) === 0) missingCount -= freePagesFrom(filePages, value);
        else {
          const offset = Number(value.readBigUInt64LE()) * pageSize + PAGE_HEADER_BYTES;
          missingCount -= freePagesFrom(filePages, await readAt(offset, node.readUInt32LE()));
        }
      }
    }
  } catch (error) {
    // An offset leads out of the page or the file.
    if (error instanceof RangeError) return false;
    throw error;
  }
  return missingCount === 0;
}

/**
 * Returns how many pages from `firstPage` on a row of the free list has: a count, then page numbers. A negative number
 * -n means that the next page number begins n adjacent pages; zeros are ignored.
 */
function freePagesFrom(firstPage: number, row: Buffer): number {
  const count = Number(row.readBigInt64LE());
  let pageCount = 0;
  let runLength = 1;
  for (let i = 1; i <= count; i++) {
    const number = Number(row.readBigInt64LE(i * 8));
    if (number > 0) pageCount += Math.max(0, number + runLength - Math.max(number, firstPage));
    runLength = number < 0 ? -number : 1;
  }
  return pageCount;
}
