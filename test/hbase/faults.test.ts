import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { LdapError } from '../../src/ldap/error.js';
import { initDirectory } from '../../src/partition/index.js';
import { MASTER_TABLE, TREE_TABLE } from '../../src/partition/tables.js';
import { type HBaseStore, openHBaseStore } from '../../src/store/hbase/index.js';
import { JOURNAL_TABLE } from '../../src/store/hbase/journal/tables.js';
import { internalHandle, tableHandle } from '../../src/store/hbase/schema/index.js';
import type { HBaseSettings } from '../../src/store/hbase/settings.js';
import { ACTOR, change, type Fixture, SUFFIX, testSchema } from '../partition/fixture.js';
import { openOver } from '../partition/kill.js';
import { freshPrefix, type HBaseServer, hbase } from './server.js';
import { swept } from './swept.js';

const LEASE_MS = 2000;
const WRITERS = 8;
const KILLS = process.env.ROWAN_SOAK ? 20 : 3;

/** Two front ends of one directory in this process, under writers that note what they were told. */
class Load {
  readonly acknowledged = new Map<string, string>();
  /** Told `unavailable`: there or not. */
  readonly unknown = new Set<string>();
  readonly #fronts: readonly Fixture[];
  readonly #running: Promise<void>[] = [];
  #stopped = false;

  constructor(fronts: readonly Fixture[]) {
    this.#fronts = fronts;
    for (let k = 0; k < WRITERS; k++) this.#running.push(this.#write(fronts[k % fronts.length]!, k));
  }

  async #write(front: Fixture, k: number): Promise<void> {
    for (let n = 0; !this.#stopped; n++) {
      const name = `w${k}-${n}`;
      const dn = `cn=${name},${SUFFIX}`;
      try {
        await front.add(dn, { objectClass: 'inetOrgPerson', cn: name, sn: name });
        this.acknowledged.set(dn, '');
        await front.modify(dn, change('replace', 'description', name));
        this.acknowledged.set(dn, name);
      } catch (error) {
        if (!(error instanceof LdapError && error.result === 'unavailable')) throw error;
        this.unknown.add(dn);
      }
    }
  }

  /** Resolves when so many more operations were acknowledged. */
  async more(count: number): Promise<void> {
    const wanted = this.acknowledged.size + count;
    while (this.acknowledged.size < wanted) await Promise.race([sleep(20), ...this.#running]);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await Promise.all(this.#running);
  }

  /** Everything that was acknowledged is there, and `check` finds nothing. */
  async expectKept(): Promise<void> {
    const [front, ...others] = this.#fronts;
    // Closed, they have written the counters that they still summed up.
    await Promise.all(others.map((other) => other.close()));
    const found = new Set(await front!.find('(cn=w*)'));
    const lost = [...this.acknowledged.keys()].filter((dn) => !found.has(dn));
    expect(lost).to.deep.equal([]);
    const known = new Set([...this.acknowledged.keys(), ...this.unknown]);
    expect([...found].filter((dn) => !known.has(dn))).to.deep.equal([]);
    for (const [dn, description] of this.acknowledged)
      if (!this.unknown.has(dn)) expect(await front!.values(dn, 'description')).to.deep.equal([description]);
    await front!.expectClean();
  }
}

describe('HBase under two front ends', function () {
  this.timeout(150_000 * KILLS);
  let server: HBaseServer;
  let settings: HBaseSettings;
  let stores: HBaseStore[];
  let fronts: Fixture[];

  before(async function () {
    server = await hbase(this);
  });

  beforeEach(async () => {
    settings = server.settings(freshPrefix());
    const open = () => openHBaseStore(settings, { leaseMs: LEASE_MS });
    stores = [await open(), await open()];
    const directory = { suffixes: [SUFFIX], adminDn: ACTOR.dn, adminPassword: Buffer.from('{CLEARTEXT}x') };
    await initDirectory(stores[0]!, directory, testSchema());
    fronts = await Promise.all(stores.map(openOver));
    await fronts[0]!.add(SUFFIX, { objectClass: ['organization', 'dcObject'], dc: 'example', o: 'Example' });
  });
  afterEach(() => Promise.all(fronts.map((front) => front.close())));

  it(`killed with -9 and started again ${KILLS} times: service resumes by itself and nothing acknowledged is lost`, async () => {
    const load = new Load(fronts);
    for (let n = 0; n < KILLS; n++) {
      await load.more(20);
      await server.kill();
      await sleep(300);
      await server.restart();
    }
    await load.more(20);
    await load.stop();
    await swept(stores[0]!, settings, stores.length);
    await load.expectKept();
  });

  it('with regions split and moved under load: nobody notices', async () => {
    const load = new Load(fronts);
    await load.more(30);
    const master = tableHandle(settings, MASTER_TABLE).name;
    const tree = tableHandle(settings, TREE_TABLE).name;
    await server.moveRegion(tree, Buffer.alloc(1));
    await load.more(10);
    await server.splitRegion(master, Buffer.from([0x01]));
    await load.more(10);
    await server.moveRegion(internalHandle(settings, JOURNAL_TABLE).name, Buffer.alloc(1));
    await server.moveRegion(master, Buffer.from([2]));
    await load.more(10);
    await load.stop();
    await swept(stores[0]!, settings, stores.length);
    expect([...load.unknown]).to.deep.equal([]);
    await load.expectKept();
  });
});
