import { fileURLToPath } from 'node:url';
import { pino } from 'pino';
import { DropFolder } from '../../src/dropfolder/drop-folder.js';
import { Partition } from '../../src/partition/index.js';
import { openHBaseStore } from '../../src/store/hbase/index.js';
import type { HBaseSettings } from '../../src/store/hbase/settings.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { testSchema } from '../partition/fixture.js';
import { dropSettings } from './drop.js';

/** The file that Node runs. */
export const CLAIMANT = fileURLToPath(import.meta.url);

export interface ClaimantArgs {
  /** The drop folder. */
  readonly folder: string;
  /** Folder of an LMDB directory. */
  readonly lmdb?: string;
  readonly hbase?: HBaseSettings;
  /** Seconds. */
  readonly lease: number;
  /** It kills itself after so many plans were committed, and so many milliseconds. */
  readonly commits: number;
  readonly after: number;
}

/** `claimant-child.js ARGS`: two claimants of a drop folder, until it kills itself or is told to end by SIGTERM. */
const [, program, given] = process.argv;
if (program === CLAIMANT) {
  const { folder, lmdb, hbase, lease, commits, after } = JSON.parse(given!) as ClaimantArgs;
  let left = commits;
  const counting = (): void => {
    if (--left > 0) return;
    if (after === 0) process.kill(process.pid, 'SIGKILL');
    setTimeout(() => process.kill(process.pid, 'SIGKILL'), after);
  };
  const store = hbase
    ? await openHBaseStore(hbase)
    : await openLmdbStore(lmdb!, { failpoint: (name) => name === 'commit durable' && counting() });
  if (hbase) {
    const commit = store.commit.bind(store);
    store.commit = (plan) => commit(plan).then(counting);
  }
  const stop = new AbortController();
  process.once('SIGTERM', () => stop.abort());
  const partition = await Partition.open(store, testSchema());
  const log = pino({ level: 'error' }, process.stderr);
  const claimant = async (): Promise<void> => {
    const drop = await DropFolder.open(folder, partition, dropSettings({ lease, poll: lease / 5 }), log);
    await drop.run(stop.signal);
    await drop.close();
  };
  await Promise.all([claimant(), claimant()]);
  await partition.close();
}
