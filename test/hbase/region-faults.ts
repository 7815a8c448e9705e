import { expect } from 'chai';
import type { Random } from '../partition/fixture.js';
import { ClusterRegions, type Place } from './cluster-regions.js';
import type { LdapLoad, Wait } from './ldap-load.js';
import type { SeparateServers } from './server.js';

/** Steps of each writer before and after each fault. */
const STEPS = 3;
/** What Rowan may add to the time in which HBase itself comes back, ms. */
const ADDED_MS = 1000;

/** One fault: what HBase itself took, ms, and the longest that a client waited. */
interface Told {
  readonly kind: string;
  readonly own: number;
  readonly wait: Wait;
}

const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`;
const beyond = ({ own, wait }: Told): number => wait.ms - own;
const told = ({ kind, own, wait }: Told): string => `${kind}: HBase ${seconds(own)}, ${wait.what} ${seconds(wait.ms)}`;

/** What befalls the region servers and regions of a directory under load, one thing after another. */
export class RegionFaults {
  readonly #server: SeparateServers;
  readonly #prefix: string;
  readonly #random: Random;
  readonly #load: LdapLoad;
  readonly #regions: ClusterRegions;
  readonly #told: Told[] = [];
  /** The longest that a client waited on this machine while nothing was wrong. */
  #usual: Wait = { what: 'none', ms: 0 };
  #kinds: (() => Promise<void>)[] = [];

  constructor(server: SeparateServers, prefix: string, random: Random, load: LdapLoad) {
    this.#server = server;
    this.#prefix = prefix;
    this.#random = random;
    this.#load = load;
    this.#regions = new ClusterRegions(server);
  }

  /** One of the kinds that were not drawn yet, or of all again; then a region moves. */
  async next(): Promise<void> {
    if (this.#kinds.length === 0)
      this.#kinds = [
        () => this.#kill('a server killed', () => this.#someServer()),
        () => this.#kill('the server of hbase:meta killed', () => this.#regions.metaServer()),
        () => this.#stop(),
        () => this.#split(),
        () => this.#merge(),
      ];
    const [kind] = this.#kinds.splice(this.#random.int(this.#kinds.length), 1);
    await kind!();
    await this.#move();
  }

  /** Of each kind the fault after which clients waited longest beyond what HBase took. */
  report(): string {
    const worst = new Map<string, Told>();
    for (const one of this.#told) {
      const known = worst.get(one.kind);
      if (!known || beyond(one) > beyond(known)) worst.set(one.kind, one);
    }
    const usual = `nothing: ${this.#usual.what} ${seconds(this.#usual.ms)}`;
    return [...[...worst.values()].map(told), usual].join('; ');
  }

  expectShort(): void {
    const long = this.#told.filter((one) => beyond(one) > ADDED_MS + 2 * this.#usual.ms);
    expect(long.map(told), `waits beyond HBase's own, where ${seconds(this.#usual.ms)} are usual`).to.deep.equal([]);
  }

  close(): Promise<void> {
    return this.#regions.close();
  }

  /** `act` resolves with the time that HBase itself took, ms. */
  async #fault(kind: string, act: () => Promise<number>): Promise<void> {
    const quiet = performance.now();
    await this.#load.more(STEPS);
    const usual = this.#load.longest(quiet);
    if (usual.ms > this.#usual.ms) this.#usual = usual;
    const since = performance.now();
    const own = await act();
    await this.#load.more(STEPS);
    this.#told.push({ kind, own, wait: this.#load.longest(since) });
  }

  #places(): Promise<Place[]> {
    return this.#regions.ofAll(this.#prefix);
  }

  async #placesOn(address: string): Promise<Place[]> {
    return (await this.#places()).filter(({ server }) => server === address);
  }

  async #someServer(): Promise<string> {
    return this.#random.pick((await this.#places()).map(({ server }) => server));
  }

  async #kill(kind: string, choose: () => Promise<string>): Promise<void> {
    const address = await choose();
    await this.#fault(kind, async () => {
      const lost = await this.#placesOn(address);
      const since = performance.now();
      this.#server.killServer(address);
      await this.#regions.answer(lost, address);
      return performance.now() - since;
    });
    await this.#server.startServer(address);
  }

  async #stop(): Promise<void> {
    const address = await this.#someServer();
    await this.#fault('a server stopped in order', async () => {
      const lost = await this.#placesOn(address);
      const since = performance.now();
      await Promise.all([this.#server.stopServer(address), this.#regions.answer(lost, address)]);
      return performance.now() - since;
    });
    await this.#server.startServer(address);
  }

  async #move(): Promise<void> {
    const region = this.#random.pick((await this.#places()).filter(({ table }) => table !== 'hbase:meta'));
    await this.#fault('a region moved', async () => {
      const since = performance.now();
      const key = region.start.length > 0 ? region.start : Buffer.alloc(1);
      await Promise.all([
        this.#server.withRegions(region.table, (regions) => regions.move(key)),
        this.#regions.answer([region], region.server),
      ]);
      return performance.now() - since;
    });
  }

  /** Anywhere between two keys of the table. */
  async #split(): Promise<void> {
    const table = this.#largeTable();
    const key = Buffer.from([this.#random.int(256), this.#random.int(256), 0x80]);
    const holds = ({ start, end }: Place): boolean =>
      start.compare(key) < 0 && (end.length === 0 || key.compare(end) < 0);
    const region = (await this.#regions.of(table)).find(holds);
    if (!region) return;
    await this.#fault('a region split', async () => {
      const since = await this.#regions.split(region, key);
      await this.#regions.answer(await this.#regions.of(table));
      return performance.now() - since;
    });
  }

  async #merge(): Promise<void> {
    const table = this.#largeTable();
    const places = await this.#regions.of(table);
    if (places.length < 2) return;
    const at = this.#random.int(places.length - 1);
    await this.#fault('two regions merged', async () => {
      const since = await this.#regions.merge(places[at]!, places[at + 1]!);
      await this.#regions.answer(await this.#regions.of(table));
      return performance.now() - since;
    });
  }

  #largeTable(): string {
    return `${this.#prefix}_${this.#random.pick(['master', 'tree', 'deleted'])}`;
  }
}
