import type { DatabaseRecord } from './meta-pages.js';
import {
  headerProblem,
  type KeyRun,
  OVERFLOW_PAGE,
  overflowCount,
  PageCheck,
  type TreeRules,
  u64,
} from './page-check.js';
import { type PageFile, UnreadablePage } from './page-file.js';
import { overflowRoom, PAGE_BYTES, PAGE_HEADER_BYTES } from './pages.js';

/** Maximum number of adjacent pages that are read in one call. */
const MAX_READ_PAGES = 64;
/** Maximum depth of a tree in LMDB. */
const MAX_DEPTH = 32;

/** State that the checks of all trees of a file share. */
export interface FileCheck {
  readonly file: PageFile;
  /** Marks the page as used and returns an empty string, or returns why the page may not be used here. */
  claimPage(page: number): string;
  report(finding: string): void;
  /** Whether the maximum number of findings is reached. */
  readonly isFull: boolean;
  /** Adds to the number of checked pages. */
  addProgress(pages: number): void;
}

/** A value in overflow pages. */
interface OverflowValue {
  readonly firstPage: number;
  readonly pageCount: number;
  readonly length: number;
  readonly key: Buffer | undefined;
}

/** A page below a branch, whose keys must lie in [low, high). */
interface ChildPage {
  readonly page: number;
  readonly low: KeyRun | undefined;
  readonly high: KeyRun | undefined;
}

/** Receives each row of a tree. Key and value may be valid only during the call. */
export type OnRow = (key: Buffer, value: Buffer, flags: number) => void;

/** Checks every page of one tree. `run` yields regularly, so that the caller can let other work run. */
export class PageTree {
  readonly #file: FileCheck;
  readonly #treeName: string;
  readonly #record: DatabaseRecord;
  readonly #rules: TreeRules;
  readonly #onRow: OnRow | undefined;
  readonly #check = new PageCheck();
  readonly #readBuffer = Buffer.allocUnsafe(MAX_READ_PAGES * PAGE_BYTES);
  readonly #branchBuffers: Buffer[] = [];
  #branchPageCount = 0;
  #leafPageCount = 0;
  #overflowCount = 0;
  #entryCount = 0;
  #isSound = true;

  constructor(file: FileCheck, name: string, record: DatabaseRecord, rules: TreeRules, onRow?: OnRow) {
    this.#file = file;
    this.#treeName = name;
    this.#record = record;
    this.#rules = rules;
    this.#onRow = onRow;
  }

  *run(): Generator<void> {
    const { rootPage, depth } = this.#record;
    if (rootPage !== undefined && (depth === 0 || depth > MAX_DEPTH)) {
      this.#file.report(`${this.#treeName}: is said to be ${depth} pages deep`);
      return;
    }
    if (rootPage !== undefined)
      yield* this.#checkSubtrees([{ page: rootPage, low: undefined, high: undefined }], depth);
    if (this.#isSound) this.#compareCounts();
  }

  #compareCounts(): void {
    const counts: readonly (readonly [string, number, number])[] = [
      ['pages of depth', this.#record.rootPage === undefined ? this.#record.depth : 0, 0],
      ['branch pages', this.#record.branchPageCount, this.#branchPageCount],
      ['leaf pages', this.#record.leafPageCount, this.#leafPageCount],
      ['overflow pages', this.#record.overflowCount, this.#overflowCount],
      ['entries', this.#record.entryCount, this.#entryCount],
    ];
    for (const [noun, expected, counted] of counts) {
      if (expected !== counted)
        this.#file.report(`${this.#treeName}: is said to have ${expected} ${noun}, and has ${counted}`);
    }
  }

  #reportProblem(page: number, problem: string): void {
    this.#isSound = false;
    this.#file.report(`page ${page} of ${this.#treeName}: ${problem}`);
  }

  /** Runs the work and reports an unreadable page as a finding. */
  #tryRead(page: number, work: () => void): void {
    try {
      work();
    } catch (error) {
      if (!(error instanceof UnreadablePage)) throw error;
      this.#reportProblem(page, error.message);
    }
  }

  /** Checks the subtrees of the given depth; depth 1 means leaves. */
  *#checkSubtrees(children: readonly ChildPage[], depth: number): Generator<void> {
    if (depth === 1) {
      yield* this.#checkLeaves(children);
      return;
    }
    for (const child of children) {
      if (this.#file.isFull) return;
      const grandchildren = this.#checkBranch(child, depth);
      if (grandchildren) yield* this.#checkSubtrees(grandchildren, depth - 1);
    }
  }

  /** Checks a branch page and returns its children; undefined if the page is damaged. */
  #checkBranch({ page, low, high }: ChildPage, depth: number): ChildPage[] | undefined {
    const problem = this.#file.claimPage(page);
    if (problem) {
      this.#reportProblem(page, problem);
      return undefined;
    }
    // The keys of the branch are bounds for the pages below, so each depth has a buffer.
    const bytes = this.#branchBuffers[depth] ?? Buffer.allocUnsafe(PAGE_BYTES);
    this.#branchBuffers[depth] = bytes;
    let children: ChildPage[] | undefined;
    this.#tryRead(page, () => {
      this.#file.file.read(page, bytes, PAGE_BYTES);
      this.#file.addProgress(1);
      this.#branchPageCount++;
      const check = this.#check;
      const problem = check.check(bytes, 0, page, false, this.#rules, low, high);
      if (problem) this.#reportProblem(page, problem);
      else {
        const keyRun = (i: number): KeyRun => ({ bytes, start: check.keyStart(i), length: check.keyLength(i) });
        const keys = Array.from({ length: check.count }, (_, i) => (i === 0 ? low : keyRun(i)));
        children = keys.map((key, i) => ({ page: check.childPage(i), low: key, high: keys[i + 1] ?? high }));
      }
    });
    return children;
  }

  /** Checks leaves in file order and reads adjacent leaves together. */
  *#checkLeaves(children: readonly ChildPage[]): Generator<void> {
    const claimedLeaves = children.filter(({ page }) => {
      const problem = this.#file.claimPage(page);
      if (problem) this.#reportProblem(page, problem);
      return problem === '';
    });
    claimedLeaves.sort((a, b) => a.page - b.page);
    let overflowValues: OverflowValue[] = [];
    for (let firstIndex = 0; firstIndex < claimedLeaves.length && !this.#file.isFull; ) {
      const page = claimedLeaves[firstIndex]!.page;
      let count = 1;
      while (count < MAX_READ_PAGES && claimedLeaves[firstIndex + count]?.page === page + count) count++;
      this.#tryRead(page, () => {
        this.#file.file.read(page, this.#readBuffer, count * PAGE_BYTES);
        for (let i = 0; i < count; i++) this.#checkLeaf(claimedLeaves[firstIndex + i]!, i * PAGE_BYTES, overflowValues);
        this.#file.addProgress(count);
      });
      firstIndex += count;
      if (overflowValues.length >= MAX_READ_PAGES * MAX_READ_PAGES) {
        this.#checkOverflowValues(overflowValues);
        overflowValues = [];
      }
      yield;
    }
    this.#checkOverflowValues(overflowValues);
  }

  #checkLeaf({ page, low, high }: ChildPage, offset: number, overflowValues: OverflowValue[]): void {
    this.#leafPageCount++;
    const check = this.#check;
    const problem = check.check(this.#readBuffer, offset, page, true, this.#rules, low, high);
    if (problem) {
      this.#reportProblem(page, problem);
      return;
    }
    this.#entryCount += check.count;
    for (let i = 0; i < check.count; i++) {
      const valueStart = check.valueStart(i);
      const length = check.valueLength(i);
      if (check.hasBigValue(i)) {
        const key = this.#onRow && Buffer.from(check.key(i));
        const pageCount = u64(check.bytes, valueStart + 16);
        overflowValues.push({ firstPage: u64(check.bytes, valueStart), pageCount, length, key });
      } else this.#onRow?.(check.key(i), check.bytes.subarray(valueStart, valueStart + length), check.flags(i));
    }
  }

  /** Checks values in overflow pages, in file order. */
  #checkOverflowValues(values: OverflowValue[]): void {
    values.sort((a, b) => a.firstPage - b.firstPage);
    for (const value of values)
      if (!this.#file.isFull) this.#tryRead(value.firstPage, () => this.#checkOverflowValue(value));
  }

  #checkOverflowValue({ firstPage, pageCount, length, key }: OverflowValue): void {
    if (pageCount < 1 || length > overflowRoom(pageCount)) {
      this.#reportProblem(firstPage, `is said to begin ${pageCount} pages for a value of ${length} bytes`);
      return;
    }
    for (let i = 0; i < pageCount; i++) {
      const problem = this.#file.claimPage(firstPage + i);
      if (problem) {
        this.#reportProblem(firstPage + i, problem);
        return;
      }
    }
    this.#overflowCount += pageCount;
    const bytes = this.#readBuffer;
    this.#file.file.read(firstPage, bytes, PAGE_HEADER_BYTES);
    this.#file.addProgress(pageCount);
    const problem =
      headerProblem(bytes, 0, firstPage, OVERFLOW_PAGE, this.#rules.newestTransaction) ||
      (overflowCount(bytes, 0) === pageCount
        ? ''
        : `begins ${overflowCount(bytes, 0)} pages, where it is said to begin ${pageCount}`);
    if (problem) this.#reportProblem(firstPage, problem);
    else if (key && this.#onRow) {
      const value = Buffer.allocUnsafe(PAGE_HEADER_BYTES + length);
      this.#file.file.read(firstPage, value, value.length);
      this.#onRow(key, value.subarray(PAGE_HEADER_BYTES), 0);
    }
  }
}
