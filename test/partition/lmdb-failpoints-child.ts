import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { Partition } from '../../src/partition/index.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import type { Failpoint } from '../../src/store/lmdb/lmdb-options.js';
import { ACTOR, attributes, change, Fixture, SUFFIX, testSchema } from './fixture.js';

const PROGRAM = fileURLToPath(import.meta.url);
export const PEOPLE = `ou=people,${SUFFIX}`;

async function* one<T>(value: T): AsyncGenerator<T> {
  yield value;
}

/** What is done to the directory of a folder that has `ou=people` with ann and bob, and `ou=other`. */
export const OPERATIONS: Readonly<Record<string, (fixture: Fixture, folder: string) => Promise<unknown>>> = {
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
  beside: async (fixture, folder) => {
    spawnSync(process.execPath, [PROGRAM, folder], { stdio: 'inherit' });
    await OPERATIONS.add!(fixture, folder);
  },
};

/** Does it; tells of each failpoint that it passes. */
export async function run(folder: string, operation: string, failpoint?: Failpoint): Promise<void> {
  const store = await openLmdbStore(folder, failpoint ? { failpoint } : {});
  const fixture = new Fixture(store, await Partition.open(store, testSchema()), undefined);
  await OPERATIONS[operation]!(fixture, folder);
  await fixture.close();
}

// As a program, `lmdb-failpoints-child.js FOLDER` makes an index.
if (process.argv[1] === PROGRAM) await run(process.argv[2]!, 'index');
