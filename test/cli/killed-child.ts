import { fileURLToPath } from 'node:url';
import { Partition } from '../../src/partition/index.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { testSchema } from '../server/directory.js';

/** The file that Node runs. */
export const KILLED_CHILD = fileURLToPath(import.meta.url);

/** What commands do; `begin` is called before the long part, with the number of the write that it is killed at. */
const WORK: Readonly<Record<string, (partition: Partition, begin: (writes: number) => void) => Promise<unknown>>> = {
  async index(partition, begin) {
    await partition.addIndex('cn', { substring: true });
    begin(1);
    await partition.buildIndexes();
  },
  async unique(partition, begin) {
    await partition.addUnique({ attributes: ['uid'] });
    begin(1);
    await partition.finishUnique();
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
      if (name === 'commit durable' && --left === 0) process.kill(process.pid, 'SIGKILL');
    },
  });
  await WORK[work!]!(await Partition.open(store, testSchema()), (writes) => {
    left = writes;
  });
}
