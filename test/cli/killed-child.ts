import { fileURLToPath } from 'node:url';
import { Partition } from '../../src/partition/index.js';
import { Schema } from '../../src/schema/index.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';

const SUFFIX = 'dc=example,dc=com';
/** The file that Node runs. */
export const KILLED_CHILD = fileURLToPath(import.meta.url);

/** What commands do; `begin` is called before the long part, with the number of the write that it is killed at. */
const WORK: Readonly<Record<string, (partition: Partition, begin: (writes: number) => void) => Promise<unknown>>> = {
  async index(partition, begin) {
    await partition.addIndex('cn', { substring: true });
    begin(1);
    await partition.buildIndexes();
  },
  /** Is killed when the table of the index is there. */
  begun: (partition) => partition.addIndex('title'),
  async unique(partition, begin) {
    await partition.addUnique({ attributes: ['uid'] });
    begin(1);
    await partition.finishUnique();
  },
  async references(partition, begin) {
    const dn = (text: string) => partition.schema.parseDn(text);
    const attribute = (type: string, ...values: string[]) => ({
      type,
      values: values.map((value) => Buffer.from(value)),
    });
    const actor = { dn: 'cn=admin' };
    for (let n = 0; n < 40; n++) {
      const values = [attribute('objectClass', 'groupOfNames'), attribute('cn', `g${n}`)];
      const member = attribute('member', `ou=people,${SUFFIX}`, `cn=nobody,ou=people,${SUFFIX}`);
      await partition.add(dn(`cn=g${n},${SUFFIX}`), [...values, member], actor);
    }
    // The rename, and some of the groups.
    begin(20);
    const to = { newRdn: 'ou=staff', deleteOldRdn: true, newSuperior: undefined };
    await partition.rename(dn(`ou=people,${SUFFIX}`), to, actor);
    await partition.settleReferences();
  },
  repair(partition, begin) {
    // By the third, some rows are mended.
    begin(3);
    return partition.repair(() => undefined);
  },
};

/** `killed-child.js FOLDER WORK`: is killed in the midst of the long part. */
const [, program, folder, work] = process.argv;
if (program === KILLED_CHILD) {
  let left = Infinity;
  const store = await openLmdbStore(folder!, {
    failpoint: (name) => {
      const isReached = name === 'commit durable' ? --left === 0 : name === 'table created' && work === 'begun';
      if (isReached) process.kill(process.pid, 'SIGKILL');
    },
  });
  await WORK[work!]!(await Partition.open(store, Schema.load()), (writes) => {
    left = writes;
  });
}
