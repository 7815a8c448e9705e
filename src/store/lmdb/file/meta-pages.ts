import {
  DATABASE_LIST_AT,
  FLAGS_AT,
  FREE_LIST_AT,
  hasKnownFlags,
  LAST_PAGE_AT,
  MAGIC,
  MAGIC_AT,
  MAP_SIZE_AT,
  META_BYTES,
  PAGE_SIZE_AT,
  TRANSACTION_AT,
  VERSION,
  VERSION_AT,
} from './meta-layout.js';
import { u64 } from './page-check.js';
import type { PageFile } from './page-file.js';
import { PAGE_BYTES } from './pages.js';

/** Page kind of a meta page. */
const META_PAGE = 8;
/** Larger than the address space of a process, in bytes. */
const MAX_MAP_BYTES = 2 ** 47;

/**
 * Maximum number of pages that a meta page counts but the file lacks: LMDB never writes pages that were allocated and
 * freed within one transaction.
 */
const MAX_UNWRITTEN_PAGES = 65_536;

/** Maximum number of reads until two successive reads of the meta pages agree. */
const MAX_READS = 1000;

/** LMDB's record of a database: flags, depth, page counts and root page. */
export interface DatabaseRecord {
  readonly flags: number;
  readonly depth: number;
  readonly branchPageCount: number;
  readonly leafPageCount: number;
  readonly overflowCount: number;
  readonly entryCount: number;
  /** Number of the root page; undefined for an empty database. */
  readonly rootPage: number | undefined;
}

/** The contents of a meta page, which describes one state of the file. */
export interface Meta {
  readonly transaction: number;
  /** Number of the last page that is in use or free. */
  readonly lastPage: number;
  /** Number of the last such page that is in the file. */
  readonly lastWrittenPage: number;
  readonly freeList: DatabaseRecord;
  readonly databaseList: DatabaseRecord;
}

export function readDatabaseRecord(bytes: Buffer, offset: number): DatabaseRecord {
  const isEmpty = bytes.readUInt32LE(offset + 40) === 0xffffffff && bytes.readUInt32LE(offset + 44) === 0xffffffff;
  return {
    flags: bytes.readUInt16LE(offset + 4),
    depth: bytes.readUInt16LE(offset + 6),
    branchPageCount: u64(bytes, offset + 8),
    leafPageCount: u64(bytes, offset + 16),
    overflowCount: u64(bytes, offset + 24),
    entryCount: u64(bytes, offset + 32),
    rootPage: isEmpty ? undefined : u64(bytes, offset + 40),
  };
}

/** Reads the newest meta page, chosen as LMDB does, or returns the problems of the meta pages. */
export function readNewestMeta(file: PageFile): Meta | string[] {
  let pages = readMetaPages(file);
  // Another process may be writing a meta page.
  for (let attempt = 0; attempt < MAX_READS; attempt++) {
    const rereadPages = readMetaPages(file);
    const isStable = rereadPages.every((page, i) => page.equals(pages[i]!));
    pages = rereadPages;
    if (isStable) break;
  }
  const problems = pages.flatMap((page, number) => metaProblems(page).map((problem) => `page ${number}: ${problem}`));
  if (problems.length > 0) return problems;
  const [firstTransaction, secondTransaction] = pages.map((page) => u64(page, TRANSACTION_AT)) as [number, number];
  const number = firstTransaction >= secondTransaction ? 0 : 1;
  const page = pages[number]!;
  const { size } = file;
  const problem = transactionsProblem(firstTransaction, secondTransaction) || newestProblem(page, size);
  if (problem) return [`page ${number}: ${problem}`];
  return {
    transaction: Math.max(firstTransaction, secondTransaction),
    lastPage: u64(page, LAST_PAGE_AT),
    lastWrittenPage: Math.min(u64(page, LAST_PAGE_AT), Math.floor(size / PAGE_BYTES) - 1),
    freeList: readDatabaseRecord(page, FREE_LIST_AT),
    databaseList: readDatabaseRecord(page, DATABASE_LIST_AT),
  };
}

function readMetaPages(file: PageFile): Buffer[] {
  return [0, 1].map((page) => {
    const bytes = Buffer.alloc(META_BYTES);
    file.read(page, bytes, META_BYTES);
    return bytes;
  });
}

/** Checks the fields of a meta page that LMDB or `data-file.ts` rely on. */
function metaProblems(page: Buffer): string[] {
  if (page.readUInt32LE(MAGIC_AT) !== MAGIC) return ['is no LMDB meta page'];
  if ((page.readUInt16LE(18) & META_PAGE) === 0) return ['is not marked as a meta page'];
  const version = page.readUInt16LE(VERSION_AT);
  if (version !== VERSION) return [`is of LMDB's format ${version}, not ${VERSION}`];
  const size = page.readUInt32LE(PAGE_SIZE_AT);
  if (size !== PAGE_BYTES) return [`tells a page size of ${size}, not ${PAGE_BYTES}`];
  const mapSize = u64(page, MAP_SIZE_AT);
  if (mapSize > MAX_MAP_BYTES) return [`tells a map of ${mapSize} bytes`];
  const fileFlags = page.readUInt16LE(FLAGS_AT);
  return hasKnownFlags(fileFlags) ? [] : [`has flags ${fileFlags}`];
}

/** Transactions write the two meta pages alternately, so their numbers must be successive and match the page. */
function transactionsProblem(first: number, second: number): string {
  if (first === 0 && second === 0) return '';
  const areSuccessive = Math.abs(first - second) === 1 && first % 2 === 0;
  return areSuccessive
    ? ''
    : `the meta pages are of transactions ${first} and ${second}, which do not follow one another`;
}

function newestProblem(page: Buffer, size: number): string {
  const lastPage = u64(page, LAST_PAGE_AT);
  if (lastPage < 1 || lastPage > size / PAGE_BYTES + MAX_UNWRITTEN_PAGES)
    return `counts pages up to ${lastPage}, the file has ${size} bytes`;
  return '';
}
