import type { DatabaseRecord } from './meta-pages.js';
import { headerProblem, type KeyAt, OVERFLOW, PageCheck, runLength, type TreeRules, u64 } from './page-check.js';
import { type PageFile, Unreadable } from './page-file.js';
import { PAGE, PAGE_HEADER, roomIn } from './pages.js';

/** Pages that lie together are read together, so many at the most. */
const TOGETHER = 64;
/** LMDB goes no deeper. */
const DEEPEST = 32;

/** What a walk over several trees shares. */
export interface Walk {
  readonly file: PageFile;
  /** Why the page may not be used here and now; empty, and the page used, where it may. */
  claim(page: number): string;
  find(finding: string): void;
  /** Whether enough has been found. */
  readonly full: boolean;
  /** So many pages more have been looked at. */
  looked(pages: number): void;
}

/** A value in pages of its own. */
interface Run {
  readonly page: number;
  readonly pages: number;
  readonly length: number;
  readonly key: Buffer | undefined;
}

/** A page below a branch, and where its keys are to be. */
interface Child {
  readonly page: number;
  readonly low: KeyAt | undefined;
  readonly high: KeyAt | undefined;
}

/** Called with each row of a tree; both are copies or good until it returns. */
export type OnRow = (key: Buffer, value: Buffer, flags: number) => void;

/** Looks at every page of one tree. Yields now and then, so that others have their turn. */
export class PageTree {
  readonly #walk: Walk;
  readonly #name: string;
  readonly #record: DatabaseRecord;
  readonly #rules: TreeRules;
  readonly #onRow: OnRow | undefined;
  readonly #leaves = new PageCheck();
  readonly #together = Buffer.allocUnsafe(TOGETHER * PAGE);
  readonly #branches: Buffer[] = [];
  #branchPages = 0;
  #leafPages = 0;
  #overflowPages = 0;
  #entries = 0;
  #sound = true;

  constructor(walk: Walk, name: string, record: DatabaseRecord, rules: TreeRules, onRow?: OnRow) {
    this.#walk = walk;
    this.#name = name;
    this.#record = record;
    this.#rules = rules;
    this.#onRow = onRow;
  }

  *run(): Generator<void> {
    const { root, depth } = this.#record;
    if (root !== undefined && (depth === 0 || depth > DEEPEST)) {
      this.#walk.find(`${this.#name}: is said to be ${depth} pages deep`);
      return;
    }
    if (root !== undefined) yield* this.#pages([{ page: root, low: undefined, high: undefined }], depth);
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
      if (said !== found) this.#walk.find(`${this.#name}: is said to have ${said} ${what}, and has ${found}`);
    }
  }

  #find(page: number, problem: string): void {
    this.#sound = false;
    this.#walk.find(`page ${page} of ${this.#name}: ${problem}`);
  }

  /** Does the work; what cannot be read is a finding. */
  #reading(page: number, work: () => void): void {
    try {
      work();
    } catch (error) {
      if (!(error instanceof Unreadable)) throw error;
      this.#find(page, error.message);
    }
  }

  /** Pages that are as far above the leaves as `depth` says, 1 for leaves. */
  *#pages(children: readonly Child[], depth: number): Generator<void> {
    if (depth === 1) {
      yield* this.#leafRuns(children);
      return;
    }
    for (const child of children) {
      if (this.#walk.full) return;
      const below = this.#branch(child, depth);
      if (below) yield* this.#pages(below, depth - 1);
    }
  }

  /** The children of a branch; undefined where it is damaged. */
  #branch({ page, low, high }: Child, depth: number): Child[] | undefined {
    const why = this.#walk.claim(page);
    if (why) {
      this.#find(page, why);
      return undefined;
    }
    // Keys in it are bounds of what is below, so it stays until all that has been looked at.
    const bytes = this.#branches[depth] ?? Buffer.allocUnsafe(PAGE);
    this.#branches[depth] = bytes;
    let children: Child[] | undefined;
    this.#reading(page, () => {
      this.#walk.file.read(page, bytes, PAGE);
      this.#walk.looked(1);
      this.#branchPages++;
      const check = this.#leaves;
      const problem = check.problem(bytes, 0, page, false, this.#rules, low, high);
      if (problem) this.#find(page, problem);
      else {
        const keyAt = (i: number): KeyAt => ({ bytes, at: check.keyAt(i), length: check.keyLength(i) });
        const keys = Array.from({ length: check.count }, (_, i) => (i === 0 ? low : keyAt(i)));
        children = keys.map((key, i) => ({ page: check.child(i), low: key, high: keys[i + 1] ?? high }));
      }
    });
    return children;
  }

  /** Leaves in the order of the file; those that lie together are read together. */
  *#leafRuns(children: readonly Child[]): Generator<void> {
    const claimed = children.filter(({ page }) => {
      const why = this.#walk.claim(page);
      if (why) this.#find(page, why);
      return why === '';
    });
    claimed.sort((a, b) => a.page - b.page);
    let runs: Run[] = [];
    for (let first = 0; first < claimed.length && !this.#walk.full; ) {
      const page = claimed[first]!.page;
      let count = 1;
      while (count < TOGETHER && claimed[first + count]?.page === page + count) count++;
      this.#reading(page, () => {
        this.#walk.file.read(page, this.#together, count * PAGE);
        for (let i = 0; i < count; i++) this.#leaf(claimed[first + i]!, i * PAGE, runs);
        this.#walk.looked(count);
      });
      first += count;
      if (runs.length >= TOGETHER * TOGETHER) {
        this.#values(runs);
        runs = [];
      }
      yield;
    }
    this.#values(runs);
  }

  #leaf({ page, low, high }: Child, at: number, runs: Run[]): void {
    this.#leafPages++;
    const check = this.#leaves;
    const problem = check.problem(this.#together, at, page, true, this.#rules, low, high);
    if (problem) {
      this.#find(page, problem);
      return;
    }
    this.#entries += check.count;
    for (let i = 0; i < check.count; i++) {
      const valueAt = check.valueAt(i);
      const length = check.valueLength(i);
      if (check.isBig(i)) {
        const key = this.#onRow && Buffer.from(check.key(i));
        runs.push({ page: u64(check.bytes, valueAt), pages: u64(check.bytes, valueAt + 16), length, key });
      } else this.#onRow?.(check.key(i), check.bytes.subarray(valueAt, valueAt + length), check.flags(i));
    }
  }

  /** Values in pages of their own, in the order of the file. */
  #values(runs: Run[]): void {
    runs.sort((a, b) => a.page - b.page);
    for (const run of runs) if (!this.#walk.full) this.#reading(run.page, () => this.#value(run));
  }

  #value({ page, pages, length, key }: Run): void {
    if (pages < 1 || length > roomIn(pages)) {
      this.#find(page, `is said to begin ${pages} pages for a value of ${length} bytes`);
      return;
    }
    for (let i = 0; i < pages; i++) {
      const why = this.#walk.claim(page + i);
      if (why) {
        this.#find(page + i, why);
        return;
      }
    }
    this.#overflowPages += pages;
    const bytes = this.#together;
    this.#walk.file.read(page, bytes, PAGE_HEADER);
    this.#walk.looked(pages);
    const problem =
      headerProblem(bytes, 0, page, OVERFLOW, this.#rules.transaction) ||
      (runLength(bytes, 0) === pages ? '' : `begins ${runLength(bytes, 0)} pages, where it is said to begin ${pages}`);
    if (problem) this.#find(page, problem);
    else if (key && this.#onRow) {
      const value = Buffer.allocUnsafe(PAGE_HEADER + length);
      this.#walk.file.read(page, value, value.length);
      this.#onRow(key, value.subarray(PAGE_HEADER), 0);
    }
  }
}
