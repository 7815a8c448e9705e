import { expect } from 'chai';
import type { Plan, PlanStep, TableSpec } from '../../../src/store/contract.js';
import { Cluster } from '../../../src/store/hbase/cluster.js';
import { Journal } from '../../../src/store/hbase/journal/journal.js';
import {
  ALIVE,
  GATES_TABLE,
  JOURNAL,
  JOURNAL_TABLE,
  NUMBERS_TABLE,
  STATE,
} from '../../../src/store/hbase/journal/journal-tables.js';
import { countDeadLocks } from '../../../src/store/hbase/journal/locks.js';
import type { Pace } from '../../../src/store/hbase/journal/pace.js';
import { cellCounter, cellValue, counterBytes, EMPTY } from '../../../src/store/row.js';
import { seeded } from '../../partition/fixture.js';
import { inSoak, rounds } from '../../rounds.js';
import { explore, type Run } from './explore.js';
import { ModelRows } from './rows.js';
import { type Budget, NOTHING, type Step, World } from './world.js';

const TABLE: TableSpec = { name: 'rows', families: [{ name: 'a' }] };
const ID = { family: 0, qualifier: Buffer.from('id'), value: Buffer.from('x') };
const COUNT = { family: 0, qualifier: Buffer.from('count') };
/** Who was there, in a row that plans change. */
const mark = (front: number) => ({ family: 0, qualifier: Buffer.from(`by${front}`), value: Buffer.from('x') });

/** Few ticks between what matters, and in the order that they have outside of the model. */
const MODEL_PACE: Pace = {
  leaseMs: 100,
  planTimeoutMs: 1_000_000,
  requestPollMs: 20,
  idleRequestPollMs: 40,
  requestResendMs: 40,
  requestExpiryMs: 100,
  firstBackoffMs: 10,
  maxBackoffMs: 20,
  foldIntervalMs: 40,
  cleanupIntervalMs: 80,
  sharedRowIdleMs: 1_000_000,
  idleCheckMs: 1_000_000,
  emptyCellIdleMs: 1_000_000,
  lateArrivalMs: 0,
  silenceTimeoutMs: 1_000_000,
};
/** Most runs of a scenario; `--times` makes more. */
const QUICK_RUNS = 5000;
const SOAK_RUNS = 20_000;
const SOAK_SAMPLE = 8_000;
/** A run that is not at its end by then does not end. */
const MOST_STEPS = 2000;

/** Rows that a front end's plan changes, and rows that it counts in. */
interface Wish {
  readonly changed: string;
  readonly counted: string;
}

function writerId(front: number, name: number): Buffer {
  return Buffer.from([front, 0, 0, 0, 0, 0, 0, name]);
}

function planOf({ changed, counted }: Wish, front: number): Plan {
  const guards = [{ op: 'equals', ...ID } as const];
  const steps: PlanStep[] = [
    ...[...changed].map((key) => ({ table: TABLE.name, key: Buffer.from(key), guards, put: [mark(front)] })),
    ...[...counted].map((key) => ({ table: TABLE.name, key: Buffer.from(key), guards, add: [{ ...COUNT, by: 1n }] })),
  ];
  return { steps, decisive: 0 };
}

/** Front ends, each of which commits a plan, over an HBase that answers when it is told to. */
class Fronts implements Run {
  readonly #world: World;
  readonly #rows = new ModelRows([TABLE]);
  readonly #wishes: readonly Wish[];
  readonly #journals: Journal[] = [];
  readonly #clusters: Cluster[] = [];
  /** Of each plan: whether it was acknowledged, or what its caller was told instead. */
  readonly #told: unknown[] = [];

  private constructor(wishes: readonly Wish[], budget: Budget) {
    this.#wishes = wishes;
    this.#world = new World(wishes.length, budget);
  }

  static async begin(wishes: readonly Wish[], budget: Budget): Promise<Fronts> {
    const fronts = new Fronts(wishes, budget);
    await fronts.#open();
    return fronts;
  }

  async #open(): Promise<void> {
    const world = this.#world;
    const numbers = this.#rows.table(this.#rows.tables.internal(NUMBERS_TABLE));
    numbers.mutate({ key: Buffer.from('ticket'), put: [{ family: 0, qualifier: EMPTY, value: counterBytes(1000n) }] });
    const table = this.#rows.table(this.#rows.tables.handle(TABLE));
    for (const key of ['a', 'b'])
      table.mutate({ key: Buffer.from(key), put: [ID, { ...COUNT, value: counterBytes(0n) }], timestamp: 1n });
    for (const front of this.#wishes.keys()) {
      const cluster = new Cluster(this.#rows.for(world, front), this.#rows.tables);
      let names = 0;
      const journal = new Journal(cluster, {
        clock: world.clock(front),
        pace: MODEL_PACE,
        createId: () => writerId(front, ++names),
        answerCount: () => 0,
      });
      this.#journals.push(journal);
      this.#clusters.push(cluster);
      await cluster.table(TABLE.name);
      await this.#drive(journal.start());
    }
    for (const [front, wish] of this.#wishes.entries()) {
      this.#journals[front]!.commit(planOf(wish, front)).then(
        () => {
          this.#told[front] = 'acknowledged';
        },
        (error: unknown) => {
          this.#told[front] = error;
        },
      );
    }
    await this.#world.rest();
  }

  /** Takes the usual steps until the work has ended. */
  async #drive(work: Promise<unknown>): Promise<void> {
    let isOver = false;
    const ended = work.finally(() => {
      isOver = true;
    });
    ended.catch(() => undefined);
    await this.#world.rest();
    for (let n = 0; !isOver; n++) {
      if (n > MOST_STEPS) throw new Error('a front end does not end');
      await this.#world.take(this.#world.steps()[0]!);
    }
    await ended;
  }

  get trace(): readonly string[] {
    return this.#world.trace;
  }

  take(step: Step): Promise<void> {
    return this.#world.take(step);
  }

  state(): string {
    return this.#world.state(this.#rows.text());
  }

  #isLiving(front: number): boolean {
    return !this.#world.isDead(front);
  }

  #writers(): number {
    const journal = this.#rows.tables.internal(JOURNAL_TABLE);
    return this.#rows.table(journal).rows.size;
  }

  /** None when all plans have ended, and the journal has nothing of those who died. */
  steps(): readonly Step[] {
    const fronts = [...this.#wishes.keys()];
    const living = fronts.filter((front) => this.#isLiving(front));
    const isOver = living.every((front) => this.#told[front] !== undefined) && this.#writers() <= living.length;
    return isOver && this.#world.isQuiet ? [] : this.#world.steps((front) => this.#isGivenUp(front));
  }

  #isGivenUp(front: number): boolean {
    const journal = this.#rows.table(this.#rows.tables.internal(JOURNAL_TABLE));
    const state = journal.value(writerId(front, 1), { family: JOURNAL.state, qualifier: STATE.state });
    return !state?.equals(ALIVE);
  }

  async end(): Promise<void> {
    const fronts = [...this.#wishes.keys()];
    const counts = new Map([...'ab'].map((key) => [key, 0n]));
    for (const front of fronts.filter((one) => this.#isLiving(one))) {
      expect(this.#told[front], `what front end ${front} was told`).to.equal('acknowledged');
    }
    const table = this.#rows.table(this.#rows.tables.handle(TABLE));
    // One that died after its caller was told may not have written what it summed up: others do.
    for (const front of fronts) if (this.#world.isStalled(front)) await this.take({ do: 'wake', front });
    const closer = fronts.find((front) => this.#isLiving(front))!;
    if (this.#world.hasLate) await this.#drive(countDeadLocks(this.#clusters[closer]!, true));
    for (const front of fronts) if (this.#isLiving(front)) await this.#drive(this.#journals[front]!.close());
    for (const front of fronts) {
      const { changed, counted } = this.#wishes[front]!;
      const done = [...changed].filter((key) => {
        const row = table.visible(Buffer.from(key));
        return row && cellValue(row, 0, mark(front).qualifier);
      });
      expect(done.length, `rows that front end ${front} has changed`).to.be.oneOf([0, changed.length]);
      if (this.#told[front] === 'acknowledged')
        expect(done.length, `acknowledged to ${front}`).to.equal(changed.length);
      if (done.length > 0) for (const key of counted) counts.set(key, counts.get(key)! + 1n);
    }
    for (const [key, count] of counts)
      expect(cellCounter(table.visible(Buffer.from(key)), COUNT.family, COUNT.qualifier), `count of ${key}`).to.equal(
        count,
      );
    expect(this.#writers(), 'rows in the journal').to.equal(0);
    const gates = this.#rows.table(this.#rows.tables.internal(GATES_TABLE));
    const cells = [table, gates].flatMap(({ rows }) =>
      [...rows].flatMap(([id, row]) => [...row.cells.keys()].map((name) => `${id} ${name}`)),
    );
    expect(
      cells.filter((cell) => cell.endsWith(` ${TABLE.families.length}:`) || !/^[ab] /.test(cell)),
      'locked rows',
    ).to.deep.equal([]);
  }
}

/** Two rows, each changed by one and counted in by another: moves that cross, and one who is in both ways. */
const CROSSING: readonly Wish[] = [
  { changed: 'a', counted: 'b' },
  { changed: 'b', counted: 'a' },
  { changed: 'ab', counted: '' },
];

interface Scenario {
  readonly wishes: readonly Wish[];
  readonly budget: Budget;
  /** Where it has more runs than are made: how many of them, at random. */
  readonly sample?: number | undefined;
}

const TWO = CROSSING.slice(0, 2);

const SCENARIOS: Readonly<Record<string, Scenario>> = {
  'two that cross': {
    wishes: TWO,
    budget: { ...NOTHING, switches: inSoak ? 3 : 1, hurries: inSoak ? 1 : 0 },
    sample: inSoak ? SOAK_SAMPLE : undefined,
  },
  'two that cross, one of which dies': {
    wishes: TWO,
    budget: { ...NOTHING, switches: inSoak ? 1 : 0, crashes: 1 },
    sample: inSoak ? undefined : 150,
  },
  'two that cross, one of which is given up and lives': {
    wishes: TWO,
    budget: { ...NOTHING, stalls: 1 },
    sample: inSoak ? SOAK_SAMPLE : 80,
  },
  'two that cross, and answers that are lost': {
    wishes: TWO,
    budget: { ...NOTHING, switches: inSoak ? 1 : 0, losses: 1 },
  },
  'three that want two rows': {
    wishes: CROSSING,
    budget: { ...NOTHING, switches: inSoak ? 2 : 1 },
    sample: inSoak ? SOAK_SAMPLE : 150,
  },
  'three that want two rows, one of which dies': {
    wishes: CROSSING,
    budget: { ...NOTHING, crashes: 1 },
    sample: inSoak ? undefined : 100,
  },
};

describe('the journal, stepped', function () {
  this.timeout(inSoak ? 7_200_000 : 300_000);
  for (const [name, { wishes, budget, sample }] of Object.entries(SCENARIOS)) {
    it(`${name}: every plan ends, nothing stays, nothing is half done`, () =>
      seeded(async (random) => {
        const mostRuns = rounds(sample ?? QUICK_RUNS, sample ?? SOAK_RUNS);
        const { runs, isWhole } = await explore(() => Fronts.begin(wishes, budget), mostRuns, MOST_STEPS, random);
        if (sample === undefined) expect(isWhole, `${runs} runs are all`).to.equal(true);
        expect(runs).to.be.greaterThan(50);
      }));
  }
});
