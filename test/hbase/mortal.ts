import { Partition } from '../../src/partition/index.js';
import { Cluster } from '../../src/store/hbase/cluster.js';
import { HBaseStore } from '../../src/store/hbase/index.js';
import { Sweeper } from '../../src/store/hbase/journal/sweeper.js';
import { CLOCK, Tickets } from '../../src/store/hbase/journal/tickets.js';
import type { HBaseClient } from '../../src/store/hbase/rpc/client.js';
import { TableRegistry } from '../../src/store/hbase/schema/index.js';
import type { HBaseSettings } from '../../src/store/hbase/settings.js';
import { StoreError } from '../../src/store/store-error.js';
import { Fixture, testSchema } from '../partition/fixture.js';

/** Nobody of these is to be given up because the machine is slow. */
const LEASE_MS = 60_000;

/**
 * A front end that dies at a failpoint: from then on nothing of it reaches HBase, neither what it was about nor its
 * beats, and nothing is tidied up. HBase cannot tell this from a kill -9 at that point (test/hbase/journal.test.ts
 * kills a process at every one of a plan's); it takes a hundredth of the time, because the connections stay and nobody
 * waits until its lease is over: it is swept at once, as a front end does that has seen that.
 */
export class Mortal {
  readonly front: Fixture;
  /** The failpoints passed while it was armed: name, and how often by then. */
  readonly points: string[];
  readonly #arm: (point: string) => void;
  readonly #die: () => Promise<void>;

  private constructor(front: Fixture, points: string[], arm: (point: string) => void, die: () => Promise<void>) {
    this.front = front;
    this.points = points;
    this.#arm = arm;
    this.#die = die;
  }

  static async open(client: HBaseClient, settings: HBaseSettings): Promise<Mortal> {
    let dead = false;
    let wanted: string | undefined;
    const points: string[] = [];
    const writers = new Map<string, Buffer>();
    const cluster = new Cluster(client, new TableRegistry(client, settings));
    const gate = gated(
      client,
      () => dead,
      ({ name }, { key }) => {
        if (name === cluster.journal.name) writers.set(key.toString('hex'), key);
      },
    );
    const store = new HBaseStore(gate, new TableRegistry(gate, settings), settings, {
      leaseMs: LEASE_MS,
      failpoint: (name) => {
        if (wanted === undefined) return;
        // What it does beside goes on for a while, and comes to points of its own.
        if (dead) throw new StoreError('closed', 'dead');
        const point = `${name} #${points.filter((passed) => passed.startsWith(`${name} #`)).length + 1}`;
        points.push(point);
        if (point !== wanted) return;
        dead = true;
        throw new StoreError('closed', 'dead');
      },
    });
    await store.start();
    const front = new Fixture(store, await Partition.open(store, testSchema()), undefined);
    const arm = (point: string): void => {
      wanted = point;
    };
    const sweeper = new Sweeper(
      cluster,
      new Tickets(cluster, CLOCK),
      CLOCK,
      { leaseMs: LEASE_MS, lateArrivalMs: 0 },
      () => false,
    );
    return new Mortal(front, points, arm, async () => {
      dead = true;
      // Ends its timers; it cannot say good-bye.
      await store.close().catch(() => undefined);
      for (const id of writers.values()) await sweeper.sweep(id);
      await sweeper.removeDrained([...writers.values()]);
    });
  }

  /** Does it and dies at this point, or behind it where it does not come there; resolves when it was swept. */
  async dies(point: string, work: (front: Fixture) => Promise<unknown>): Promise<void> {
    this.#arm(point);
    try {
      await work(this.front);
    } catch (error) {
      if (this.points.at(-1) !== point) throw error;
    } finally {
      await this.#die();
    }
  }
}

type Mutate = HBaseClient['mutate'];

/** The client until `dead`; `close` leaves it to its owner. Tells of the mutations that it passes on. */
function gated(client: HBaseClient, dead: () => boolean, told: (...args: Parameters<Mutate>) => void): HBaseClient {
  return new Proxy(client, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      if (name === 'close') return () => Promise.resolve();
      return (...args: unknown[]) => {
        if (dead()) {
          const error = new StoreError('closed', 'dead');
          // The one call that answers with no promise: nobody would hear that one was rejected.
          if (name === 'scan') throw error;
          return Promise.reject(error);
        }
        if (name === 'mutate') told(...(args as Parameters<Mutate>));
        return value.apply(target, args) as unknown;
      };
    },
  });
}
