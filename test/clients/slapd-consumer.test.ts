import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { Partition } from '../../src/partition/index.js';
import type { Store } from '../../src/store/contract.js';
import { openHBaseStore } from '../../src/store/hbase/index.js';
import type { HBaseSettings } from '../../src/store/hbase/settings.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { borrowTables, returnTables } from '../hbase/recycled.js';
import { seeded } from '../partition/fixture.js';
import { needs } from '../require.js';
import { inSoak, rounds } from '../rounds.js';
import { ADMIN, CHEAP, emptyPartition, fill, type Running, SUFFIX, start, testSchema } from '../server/directory.js';
import { RandomChanges } from '../server/random-changes.js';
import { RawClient } from '../server/raw-client.js';
import { type RunningSlapd, startSlapd } from './slapd.js';

const IN_SOAK = 600_000;

/** Entries by entryUUID, each as its DN and its attributes in order. */
async function entriesAt(port: number, dn: string, password: string): Promise<Map<string, string>> {
  const client = await RawClient.open(port);
  try {
    expect(await client.bind(dn, password)).to.equal(0);
    const attributes = ['*', 'entryUUID', 'entryCSN', 'createTimestamp', 'modifiersName'];
    const found = await client.search(SUFFIX, { scope: 'sub', attributes });
    const shown = found.entries.map((entry): [string, string] => {
      const values = [...entry.attributes].map(([type, list]) => `${type}: ${list.map(String).sort()}`);
      return [String(entry.attributes.get('entryUUID')), [entry.dn, ...values.sort()].join('\n')];
    });
    return new Map(found.code === 32 ? [] : shown);
  } finally {
    client.close();
  }
}

/** Debian's slapd that copies the directory from `provider`. */
class Consumer {
  readonly #folder = mkdtempSync(join(tmpdir(), 'rowan-consumer-'));
  #slapd: RunningSlapd | undefined;

  constructor(provider: number, mode: string) {
    mkdirSync(join(this.#folder, 'data'));
    const lines = [
      'include /etc/ldap/schema/core.schema',
      'include /etc/ldap/schema/cosine.schema',
      'include /etc/ldap/schema/inetorgperson.schema',
      'modulepath /usr/lib/ldap',
      'moduleload back_mdb',
      `pidfile ${this.#folder}/pid`,
      'database mdb',
      `suffix "${SUFFIX}"`,
      `rootdn "cn=root,${SUFFIX}"`,
      'rootpw secret',
      `directory ${this.#folder}/data`,
      'index entryUUID,entryCSN eq',
      `syncrepl rid=001 provider=ldap://127.0.0.1:${provider} type=${mode} interval=00:00:00:01 retry="1 +"`,
      `  searchbase="${SUFFIX}" bindmethod=simple binddn="${ADMIN.dn}" credentials="${ADMIN.password}"`,
      '  schemachecking=off',
    ];
    writeFileSync(join(this.#folder, 'slapd.conf'), `${lines.join('\n')}\n`);
  }

  async start(): Promise<void> {
    this.#slapd = await startSlapd(join(this.#folder, 'slapd.conf'));
  }

  entries(): Promise<Map<string, string>> {
    return entriesAt(this.#slapd!.port, `cn=root,${SUFFIX}`, 'secret');
  }

  async stop(): Promise<void> {
    await this.#slapd?.stop();
    this.#slapd = undefined;
  }

  async remove(): Promise<void> {
    await this.stop();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

for (const engine of inSoak ? (['lmdb', 'hbase'] as const) : (['lmdb'] as const)) {
  describe(`clients: slapd as a consumer (${engine})`, () => {
    const fronts: Running[] = [];
    let consumer: Consumer;
    let borrowed: HBaseSettings | undefined;
    const folder = mkdtempSync(join(tmpdir(), 'rowan-sync-'));

    before(async function () {
      needs(this, 'slapd');
      this.timeout(IN_SOAK);
      if (engine === 'hbase') borrowed = await borrowTables(this);
      const open = (): Promise<Store> => (borrowed ? openHBaseStore(borrowed) : openLmdbStore(folder));
      const first = await emptyPartition(await open());
      await fill(first, 0);
      for (const partition of [first, await Partition.open(await open(), testSchema())])
        fronts.push(await start({ ...CHEAP, 'limits.admin.sizeLimit': 0 }, 0, partition));
    });
    after(async () => {
      await consumer?.remove();
      for (const front of fronts) await front.stop();
      for (const { partition } of fronts) await partition.close();
      returnTables(borrowed);
      rmSync(folder, { recursive: true, force: true });
    });

    async function expectEqual(): Promise<void> {
      const wanted = await entriesAt(fronts[0]!.port, ADMIN.dn, ADMIN.password);
      let found = new Map<string, string>();
      // Waits for the consumer, which tells nobody how far it is; a lasting difference is shown.
      for (let tries = 0; tries < rounds(1000, 2000); tries++) {
        found = await consumer.entries();
        if ([...wanted].every(([id, text]) => found.get(id) === text) && found.size === wanted.size) return;
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
      const extra = [...found].filter(([id]) => !wanted.has(id)).map(([, text]) => `only at slapd: ${text}`);
      const missing = [...wanted].flatMap(([id, text]) =>
        found.get(id) === text ? [] : [`rowan: ${text}\nslapd: ${found.get(id)}`],
      );
      expect.fail([...extra, ...missing].slice(0, 10).join('\n\n'));
    }

    for (const mode of ['refreshAndPersist', 'refreshOnly'])
      it(`${mode}: is equal after random changes, restarts and kills`, async function () {
        this.timeout(IN_SOAK);
        await seeded(async (random) => {
          const changes = new RandomChanges(
            fronts.map(({ partition }) => partition),
            random,
          );
          await changes.addUnits(rounds(20, 200));
          await changes.addPeople(rounds(280, 4800));
          await consumer?.remove();
          consumer = new Consumer(fronts[0]!.port, mode);
          await consumer.start();
          await expectEqual();
          const count = rounds(150, 3000);
          for (let n = 0; n < count; n++) {
            await changes.change();
            if (n % Math.ceil(count / 3) === 20) {
              await consumer.stop();
              for (let more = 0; more < 10; more++) await changes.change();
              await consumer.start();
            }
          }
          await expectEqual();
        });
      });
  });
}
