import type { Random } from '../partition/fixture.js';
import { ClusterRegions, type Place } from './cluster-regions.js';
import type { LdapLoad } from './ldap-load.js';
import type { SeparateServers } from './server.js';

/** Steps of each writer before and after each fault. */
const STEPS = 3;

/** What befalls the region servers and regions of a directory under load, one thing after another. */
export class RegionFaults {
  readonly #server: SeparateServers;
  readonly #prefix: string;
  readonly #random: Random;
  readonly #load: LdapLoad;
  readonly #regions: ClusterRegions;
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
        () => this.#kill(() => this.#someServer()),
        () => this.#kill(() => this.#regions.metaServer()),
        () => this.#stop(),
        () => this.#split(),
        () => this.#merge(),
      ];
    const [kind] = this.#kinds.splice(this.#random.int(this.#kinds.length), 1);
    await kind!();
    await this.#move();
  }

  close(): Promise<void> {
    return this.#regions.close();
  }

  /** Every writer gets on before it and after it. */
  async #fault(act: () => Promise<unknown>): Promise<void> {
    await this.#load.more(STEPS);
    await act();
    await this.#load.more(STEPS);
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

  async #kill(choose: () => Promise<string>): Promise<void> {
    const address = await choose();
    await this.#fault(async () => {
      const lost = await this.#placesOn(address);
      this.#server.killServer(address);
      await this.#regions.answer(lost, address);
    });
    await this.#server.startServer(address);
  }

  async #stop(): Promise<void> {
    const address = await this.#someServer();
    await this.#fault(async () => {
      const lost = await this.#placesOn(address);
      await Promise.all([this.#server.stopServer(address), this.#regions.answer(lost, address)]);
    });
    await this.#server.startServer(address);
  }

  async #move(): Promise<void> {
    const region = this.#random.pick((await this.#places()).filter(({ table }) => table !== 'hbase:meta'));
    await this.#fault(async () => {
      const key = region.start.length > 0 ? region.start : Buffer.alloc(1);
      await Promise.all([
        this.#server.withRegions(region.table, (regions) => regions.move(key)),
        this.#regions.answer([region], region.server),
      ]);
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
    await this.#fault(async () => {
      await this.#regions.split(region, key);
      await this.#regions.answer(await this.#regions.of(table));
    });
  }

  async #merge(): Promise<void> {
    const table = this.#largeTable();
    const places = await this.#regions.of(table);
    if (places.length < 2) return;
    const at = this.#random.int(places.length - 1);
    await this.#fault(async () => {
      await this.#regions.merge(places[at]!, places[at + 1]!);
      await this.#regions.answer(await this.#regions.of(table));
    });
  }

  #largeTable(): string {
    return `${this.#prefix}_${this.#random.pick(['master', 'tree', 'deleted'])}`;
  }
}
