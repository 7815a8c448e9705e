import type { DatabaseRecord } from './meta-pages.js';
import { headerProblem, type KeyAt, OVERFLOW, overflowPages, PageCheck, type TreeRules, u64 } from './page-check.js';
import { type PageFile, UnreadablePage } from './page-file.js';
import { overflowRoom, PAGE, PAGE_HEADER } from './pages.js';

/** Maximum number of adjacent pages that are read in one call. */
const MAX_READ_PAGES = 64;
/** Maximum depth of a tree in LMDB. */
const MAX_DEPTH = 32;

/** State that the checks of all trees of a file share. */
export interface FileCheck {
  readonly file: PageFile;
  /** Marks the page as used and returns an empty string, or returns why the page may not be used here. */
  claim(page: number): string;
  report(finding: string): void;
  /** Whether the maximum number of findings is reached. */
  readonly isFull: boolean;
  /** Adds to the number of checked pages. */
  addProgress(pages: number): void;
}

/** A long value in overflow pages. */
interface LongValue {
  readonly page: number;
  readonly pages: number;
  readonly length: number;
  readonly key: Buffer | undefined;
}

/** A page below a branch, whose keys must lie in [low, high). */
interface Child {
  readonly page: number;
  readonly low: KeyAt | undefined;
  readonly high: KeyAt | undefined;
}

/** Called with each row of a tree. Key and value may be valid only during the call. */
export type OnRow = (key: Buffer, value: Buffer, flags: number) => void;

/** Checks every page of one tree. `run` yields regularly, so that the caller can give way to other work. */
export class PageTree {
  readonly #file: FileCheck;
  readonly #name: string;
  readonly #record: DatabaseRecord;
  readonly #rules: TreeRules;
  readonly #onRow: OnRow | undefined;
  readonly #check = new PageCheck();
  readonly #readBuffer = Buffer.allocUnsafe(MAX_READ_PAGES * PAGE);
  readonly #branches: Buffer[] = [];
  #branchPages = 0;
  #leafPages = 0;
  #overflowPages = 0;
  #entries = 0;
  #sound = true;

  constructor(file: FileCheck, name: string, record: DatabaseRecord, rules: TreeRules, onRow?: OnRow) {
    this.#file = file;
    this.#name = name;
    this.#record = record;
    this.#rules = rules;
    this.#onRow = onRow;
  }

  *run(): Generator<void> {
    const { root, depth } = this.#record;
    if (root !== undefined && (depth === 0 || depth > MAX_DEPTH)) {
      this.#file.report(`${this.#name}: is said to be ${depth} pages deep`);
      return;
    }
    if (root !== undefined) yield* this.#checkSubtrees([{ page: root, low: undefined, high: undefined }], depth);
    if (this.#sound) this.#compareCounts();
  }

  #compareCounts(): void {
    const counts: readonly (readonly [string, number, number])[] = [
      ['pages of depth', this.#record.root === undefined ? this.#record.depth : 0, 0],
      ['branch pages', this.#record.branchPages, this.#branchPages],
      ['leaf pages', this.#record.leafPages, this.#leafPages],
      ['overflow pages', this.#record.overflowPages, this.#overflowPages],
      ['entries', this.#record.entries, this.#entries],
    ];
    for (const [what, said, found] of counts) {
      if (said !== found) this.#file.report(`${this.#name}: is said to have ${said} ${what}, and has ${found}`);
    }
  }

  #report(page: number, problem: string): void {
    this.#sound = false;
    this.#file.report(`page ${page} of ${this.#name}: ${problem}`);
  }

  /** Runs the work and reports an unreadable page as a finding. */
  #tryRead(page: number, work: () => void): void {
    try {
      work();
    } catch (error) {
      if (!(error instanceof UnreadablePage)) throw error;
      this.#report(page, error.message);
    }
  }

  /** Checks the subtrees of the given depth; depth 1 means leaves. */
  *#checkSubtrees(children: readonly Child[], depth: number): Generator<void> {
    if (depth === 1) {
      yield* this.#checkLeaves(children);
      return;
    }
    for (const child of children) {
      if (this.#file.isFull) return;
      const below = this.#checkBranch(child, depth);
      if (below) yield* this.#checkSubtrees(below, depth - 1);
    }
  }

  /** Checks a branch page and returns its children; undefined if the page is damaged. */
  #checkBranch({ page, low, high }: Child, depth: number): Child[] | undefined {
    const why = this.#file.claim(page);
    if (why) {
      this.#report(page, why);
      return undefined;
    }
    // The keys of the branch are bounds for the pages below, so each depth has a buffer.
    const bytes = this.#branches[depth] ?? Buffer.allocUnsafe(PAGE);
    this.#branches[depth] = bytes;
    let children: Child[] | undefined;
    this.#tryRead(page, () => {
      this.#file.file.read(page, bytes, PAGE);
      this.#file.addProgress(1);
      this.#branchPages++;
      const check = this.#check;
      const problem = check.problem(bytes, 0, page, false, this.#rules, low, high);
      if (problem) this.#report(page, problem);
      else {
        const keyAt = (i: number): KeyAt => ({ bytes, at: check.keyAt(i), length: check.keyLength(i) });
        const keys = Array.from({ length: check.count }, (_, i) => (i === 0 ? low : keyAt(i)));
        children = keys.map((key, i) => ({ page: check.child(i), low: key, high: keys[i + 1] ?? high }));
      }
    });
    return children;
  }

  /** Checks leaves in file order and reads adjacent leaves together. */
  *#checkLeaves(children: readonly Child[]): Generator<void> {
    const claimed = children.filter(({ page }) => {
      const why = this.#file.claim(page);
      if (why) this.#report(page, why);
      return why === '';
    });
    claimed.sort((a, b) => a.page - b.page);
    let longValues: LongValue[] = [];
    for (let first = 0; first < claimed.length && !this.#file.isFull; ) {
      const page = claimed[first]!.page;
      let count = 1;
      while (count < MAX_READ_PAGES && claimed[first + count]?.page === page + count) count++;
      this.#tryRead(page, () => {
        this.#file.file.read(page, this.#readBuffer, count * PAGE);
        for (let i = 0; i < count; i++) this.#checkLeaf(claimed[first + i]!, i * PAGE, longValues);
        this.#file.addProgress(count);
      });
      first += count;
      if (longValues.length >= MAX_READ_PAGES * MAX_READ_PAGES) {
        this.#checkLongValues(longValues);
        longValues = [];
      }
      yield;
    }
    this.#checkLongValues(longValues);
  }

  #checkLeaf({ page, low, high }: Child, at: number, longValues: LongValue[]): void {
    this.#leafPages++;
    const check = this.#check;
    const problem = check.problem(this.#readBuffer, at, page, true, this.#rules, low, high);
    if (problem) {
      this.#report(page, problem);
      return;
    }
    this.#entries += check.count;
    for (let i = 0; i < check.count; i++) {
      const valueAt = check.valueAt(i);
      const length = check.valueLength(i);
      if (check.isBig(i)) {
        const key = this.#onRow && Buffer.from(check.key(i));
        longValues.push({ page: u64(check.bytes, valueAt), pages: u64(check.bytes, valueAt + 16), length, key });
      } else this.#onRow?.(check.key(i), check.bytes.subarray(valueAt, valueAt + length), check.flags(i));
    }
  }

  /** Checks long values in file order. */
  #checkLongValues(values: LongValue[]): void {
    values.sort((a, b) => a.page - b.page);
    for (const value of values) if (!this.#file.isFull) this.#tryRead(value.page, () => this.#checkLongValue(value));
  }

  #checkLongValue({ page, pages, length, key }: LongValue): void {
    if (pages < 1 || length > overflowRoom(pages)) {
      this.#report(page, `is said to begin ${pages} pages for a value of ${length} bytes`);
      return;
    }
    for (let i = 0; i < pages; i++) {
      const why = this.#file.claim(page + i);
      if (why) {
        this.#report(page + i, why);
        return;
      }
    }
    this.#overflowPages += pages;
    const bytes = this.#readBuffer;
    this.#file.file.read(page, bytes, PAGE_HEADER);
    this.#file.addProgress(pages);
    const problem =
      headerProblem(bytes, 0, page, OVERFLOW, this.#rules.transaction) ||
      (overflowPages(bytes, 0) === pages
        ? ''
        : `begins ${overflowPages(bytes, 0)} pages, where it is said to begin ${pages}`);
    if (problem) this.#report(page, problem);
    else if (key && this.#onRow) {
      const value = Buffer.allocUnsafe(PAGE_HEADER + length);
      this.#file.file.read(page, value, value.length);
      this.#onRow(key, value.subarray(PAGE_HEADER), 0);
    }
  }
}
