import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { Partition } from '../../src/partition/index.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { ACTOR, attributes, change, Fixture, SUFFIX, testSchema } from './fixture.js';

export const PEOPLE = `ou=people,${SUFFIX}`;

async function* one<T>(value: T): AsyncGenerator<T> {
  yield value;
}

/** What is done to a directory that has `ou=people` with ann and bob, and `ou=other`. */
export const OPERATIONS: Readonly<Record<string, (fixture: Fixture) => Promise<unknown>>> = {
  add: (fixture) => fixture.person('cid', PEOPLE, { description: 'new', mail: 'cid@x' }),
  modify: (fixture) =>
    fixture.modify(`cn=ann,${PEOPLE}`, change('replace', 'description', 'second'), change('replace', 'mail', 'a@y')),
  photo: (fixture) => fixture.modify(`cn=ann,${PEOPLE}`, change('add', 'jpegPhoto', Buffer.alloc(200_000, 0xd8))),
  group: (fixture) =>
    fixture.add(`cn=group,${PEOPLE}`, {
      objectClass: 'groupOfNames',
      cn: 'group',
      member: Array.from({ length: 3000 }, (_, i) => `cn=member ${i},${PEOPLE}`),
    }),
  rename: (fixture) => fixture.rename(`cn=ann,${PEOPLE}`, 'cn=anna'),
  move: (fixture) => fixture.rename(PEOPLE, 'ou=people', { newSuperior: `ou=other,${SUFFIX}` }),
  delete: (fixture) => fixture.delete(`cn=bob,${PEOPLE}`),
  load: (fixture) => {
    const entries = Array.from({ length: 50 }, (_, line) => ({
      line,
      dn: `cn=l${line},${PEOPLE}`,
      attributes: attributes({ objectClass: 'inetOrgPerson', cn: `l${line}`, sn: 'loaded', mail: `l${line}@x` }),
    }));
    const onReject = ({ reason }: { reason: string }): void => {
      throw new Error(reason);
    };
    return fixture.partition.load(one(entries), ACTOR, { continue: false, onReject });
  },
  index: async ({ partition }) => {
    await partition.addIndex('title', {});
    await partition.buildIndexes();
  },
  drop: ({ partition }) => partition.dropIndex('description'),
  /** Another process has made an index meanwhile. */
  beside: async (fixture) => {
    spawnSync(process.execPath, [fileURLToPath(import.meta.url), process.argv[2]!, 'index'], { stdio: 'inherit' });
    await OPERATIONS.add!(fixture);
  },
};

/**
 * `lmdb-failpoints-child.js FOLDER OPERATION [POINT [N]]`: does it, and is killed when it passes the point for the Nth
 * time.
 */
async function run(folder: string, operation: string, point?: string, nth = '1'): Promise<void> {
  let passed = 0;
  const store = await openLmdbStore(folder, {
    failpoint: (name) => {
      if (name === point && ++passed === Number(nth)) process.kill(process.pid, 'SIGKILL');
    },
  });
  const fixture = new Fixture(store, await Partition.open(store, testSchema()), undefined);
  await OPERATIONS[operation]!(fixture);
  await fixture.close();
}

const [, program, folder, operation, point, nth] = process.argv;
if (program === fileURLToPath(import.meta.url)) await run(folder!, operation!, point, nth);
