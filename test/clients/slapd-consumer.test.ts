import type { ChildProcess } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { LdapError, type ResultName, resultName } from '../../src/ldap/ldap-error.js';
import type { Modification, PartialAttribute } from '../../src/ldap/ldap-types.js';
import type { Request } from '../../src/protocol/ldap-messages.js';
import type { Dn } from '../../src/schema/schema-types.js';
import type { HBaseSettings } from '../../src/store/hbase/settings.js';
import { ADMIN, exited, PASSWORD, rowanDoes, Sandbox, SUFFIX, serve } from '../cli/rowan.js';
import { borrowTables, returnTables } from '../hbase/recycled.js';
import { hbase } from '../hbase/server.js';
import { seeded } from '../partition/fixture.js';
import { needs } from '../require.js';
import { inSoak, rounds } from '../rounds.js';
import { attributes, testSchema } from '../server/directory.js';
import { RandomChanges, type Writer } from '../server/random-changes.js';
import { RawClient } from '../server/raw-client.js';
import { type RunningSlapd, startSlapd } from './slapd.js';

const IN_SOAK = 1_800_000;

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
      `  searchbase="${SUFFIX}" bindmethod=simple binddn="${ADMIN}" credentials="${PASSWORD}"`,
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

/** A `rowan serve` process. It is started again on the port that it had first. */
class Front implements Writer {
  readonly #data: string;
  readonly #args: readonly string[];
  #process: ChildProcess | undefined;
  #client: RawClient | undefined;
  port = 0;

  constructor(data: string, args: readonly string[]) {
    this.#data = data;
    this.#args = args;
  }

  async start(): Promise<void> {
    const listen = ['--listen', `ldap://127.0.0.1:${this.port}`];
    const { process, port } = await serve(this.#data, [...this.#args, ...listen]);
    this.#process = process;
    this.port = port;
    this.#client = await RawClient.open(port);
    expect(await this.#client.bind(ADMIN, PASSWORD)).to.equal(0);
  }

  async end(signal: NodeJS.Signals): Promise<void> {
    this.#process?.kill(signal);
    if (this.#process) await exited(this.#process);
  }

  async #change(request: Request): Promise<void> {
    const { code, final } = await this.#client!.request(request);
    if (code !== 0) throw new LdapError(resultName(code) as ResultName, final.message);
  }

  add(dn: Dn, attributes: readonly PartialAttribute[]): Promise<void> {
    return this.#change({ op: 'add', dn: dn.text, attributes });
  }

  modify(dn: Dn, changes: readonly Modification[]): Promise<void> {
    return this.#change({ op: 'modify', dn: dn.text, changes });
  }

  rename(dn: Dn, to: Parameters<Writer['rename']>[1]): Promise<void> {
    return this.#change({ op: 'modifyDN', dn: dn.text, ...to });
  }

  delete(dn: Dn): Promise<void> {
    return this.#change({ op: 'delete', dn: dn.text });
  }
}

/** Kills a front end while changes are made at all of them, and starts it again. */
async function killAmidChanges(front: Front, changes: RandomChanges): Promise<void> {
  const change = (): Promise<void> =>
    changes.change().catch((error: Error) => {
      if (!error.message.startsWith('the connection ended')) throw error;
    });
  const underWay = Array.from({ length: 20 }, change);
  await Promise.race(underWay);
  await front.end('SIGKILL');
  await Promise.all(underWay);
  await front.start();
}

for (const engine of inSoak ? (['lmdb', 'hbase'] as const) : (['lmdb'] as const)) {
  describe(`clients: slapd as a consumer (${engine})`, () => {
    const sandbox = new Sandbox();
    let fronts: readonly Front[];
    let consumer: Consumer;
    let borrowed: HBaseSettings | undefined;

    before(async function () {
      needs(this, 'slapd');
      this.timeout(IN_SOAK);
      let data = sandbox.data;
      const args = engine === 'hbase' ? ['--hbase-regions', '1'] : [];
      if (engine === 'hbase') {
        borrowed = await borrowTables(this);
        data = (await hbase(this)).url(borrowed.prefix);
        await rowanDoes(['init', '--store', data, '--suffix', SUFFIX, '--admin-dn', ADMIN, ...args], {
          env: { ROWAN_ADMIN_PASSWORD: PASSWORD },
        });
      } else await sandbox.init();
      fronts = [new Front(data, args), new Front(data, args)];
      await Promise.all(fronts.map((front) => front.start()));
      const suffix = { objectClass: ['top', 'dcObject', 'organization'], dc: 'example', o: 'Example' };
      await fronts[0]!.add(testSchema().parseDn(SUFFIX), attributes(suffix));
    });
    after(async () => {
      await consumer?.remove();
      for (const front of fronts ?? []) await front.end('SIGTERM');
      await sandbox.remove();
      returnTables(borrowed);
    });

    async function expectEqual(): Promise<void> {
      let wanted = new Map<string, string>();
      let found = new Map<string, string>();
      // Waits for the consumer, which tells nobody how far it is; a lasting difference is shown.
      for (let tries = 0; tries < 1000; tries++) {
        found = await consumer.entries();
        // Over HBase, what a killed front end had decided is done when the others give that up.
        wanted = await entriesAt(fronts[0]!.port, ADMIN, PASSWORD);
        if ([...wanted].every(([id, text]) => found.get(id) === text) && found.size === wanted.size) return;
        await new Promise((resolve) => setTimeout(resolve, rounds(50, 500)));
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
          const changes = new RandomChanges(fronts, random);
          const change = async (count: number): Promise<void> => {
            for (let n = 0; n < count; n++) await changes.change();
          };
          await changes.addUnits(rounds(20, 200));
          await changes.addPeople(rounds(280, 4800));
          await consumer?.remove();
          consumer = new Consumer(fronts[0]!.port, mode);
          await consumer.start();
          await expectEqual();
          const stops = rounds(2, 20);
          for (let stop = 0; stop < stops; stop++) {
            await change(rounds(30, 60));
            await killAmidChanges(fronts[stop % fronts.length]!, changes);
            await change(rounds(30, 60));
            await consumer.stop();
            await change(10);
            await consumer.start();
          }
          await expectEqual();
        });
      });
  });
}
