import {
  areFileFlags,
  FLAGS_AT,
  FREE_AT,
  LAST_PAGE_AT,
  MAGIC,
  MAGIC_AT,
  MAIN_AT,
  MAP_SIZE_AT,
  META_BYTES,
  PAGE_SIZE_AT,
  TRANSACTION_AT,
  VERSION,
  VERSION_AT,
} from './meta-layout.js';
import { u64 } from './page-check.js';
import type { PageFile } from './page-file.js';
import { PAGE } from './pages.js';

/** The flag of a meta page. */
const META = 8;
/** More than a process can map, bytes. */
const LARGEST_MAP = 2 ** 47;

/**
 * The last pages that are counted may not be in the file: a transaction took them, and gave them back before it ended.
 * So many at the most.
 */
const MOST_UNWRITTEN = 65_536;

/** How often the pages are read until they stay as they are for a moment. */
const ATTEMPTS = 1000;

/** What LMDB keeps of a database. */
export interface DatabaseRecord {
  readonly flags: number;
  readonly depth: number;
  readonly branchPages: number;
  readonly leafPages: number;
  readonly overflowPages: number;
  readonly entries: number;
  /** Undefined where it is empty. */
  readonly root: number | undefined;
}

/** What a state of the file begins with. */
export interface Meta {
  readonly transaction: number;
  /** The last page that is in use, or free. */
  readonly lastPage: number;
  /** The last one that is in the file, too. */
  readonly lastWritten: number;
  readonly free: DatabaseRecord;
  readonly main: DatabaseRecord;
}

export function readRecord(bytes: Buffer, at: number): DatabaseRecord {
  const empty = bytes.readUInt32LE(at + 40) === 0xffffffff && bytes.readUInt32LE(at + 44) === 0xffffffff;
  return {
    flags: bytes.readUInt16LE(at + 4),
    depth: bytes.readUInt16LE(at + 6),
    branchPages: u64(bytes, at + 8),
    leafPages: u64(bytes, at + 16),
    overflowPages: u64(bytes, at + 24),
    entries: u64(bytes, at + 32),
    root: empty ? undefined : u64(bytes, at + 40),
  };
}

/** The newest state, as LMDB chooses it, or what is wrong with the pages that tell of it. */
export function readNewest(file: PageFile): Meta | string[] {
  let pages = readBoth(file);
  // Another process may be writing one of them.
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const again = readBoth(file);
    const settled = again.every((page, i) => page.equals(pages[i]!));
    pages = again;
    if (settled) break;
  }
  const problems = pages.flatMap((page, number) => metaProblems(page).map((problem) => `page ${number}: ${problem}`));
  if (problems.length > 0) return problems;
  const [first, second] = pages.map((page) => u64(page, TRANSACTION_AT)) as [number, number];
  const number = first >= second ? 0 : 1;
  const page = pages[number]!;
  const { size } = file;
  const problem = transactionsProblem(first, second) || newestProblem(page, size);
  if (problem) return [`page ${number}: ${problem}`];
  return {
    transaction: Math.max(first, second),
    lastPage: u64(page, LAST_PAGE_AT),
    lastWritten: Math.min(u64(page, LAST_PAGE_AT), Math.floor(size / PAGE) - 1),
    free: readRecord(page, FREE_AT),
    main: readRecord(page, MAIN_AT),
  };
}

function readBoth(file: PageFile): Buffer[] {
  return [0, 1].map((page) => {
    const bytes = Buffer.alloc(META_BYTES);
    file.read(page, bytes, META_BYTES);
    return bytes;
  });
}

/** What LMDB or `data-file.ts` looks at in both pages. */
function metaProblems(page: Buffer): string[] {
  if (page.readUInt32LE(MAGIC_AT) !== MAGIC) return ['is no LMDB meta page'];
  if ((page.readUInt16LE(18) & META) === 0) return ['is not marked as a meta page'];
  const version = page.readUInt16LE(VERSION_AT);
  if (version !== VERSION) return [`is of LMDB's format ${version}, not ${VERSION}`];
  const size = page.readUInt32LE(PAGE_SIZE_AT);
  if (size !== PAGE) return [`tells a page size of ${size}, not ${PAGE}`];
  const mapSize = u64(page, MAP_SIZE_AT);
  if (mapSize > LARGEST_MAP) return [`tells a map of ${mapSize} bytes`];
  const flags = page.readUInt16LE(FLAGS_AT);
  return areFileFlags(flags) ? [] : [`has flags ${flags}`];
}

/** Each transaction writes the meta page that the one before has left. */
function transactionsProblem(first: number, second: number): string {
  if (first === 0 && second === 0) return '';
  const fits = Math.abs(first - second) === 1 && first % 2 === 0;
  return fits ? '' : `the meta pages are of transactions ${first} and ${second}, which do not follow one another`;
}

function newestProblem(page: Buffer, size: number): string {
  const lastPage = u64(page, LAST_PAGE_AT);
  if (lastPage < 1 || lastPage > size / PAGE + MOST_UNWRITTEN)
    return `counts pages up to ${lastPage}, the file has ${size} bytes`;
  return '';
}
