import { writeSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { Partition } from '../../src/partition/index.js';
import { openHBaseStore } from '../../src/store/hbase/index.js';
import { hbaseSettings, isHBaseUrl } from '../../src/store/hbase/settings.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { Fixture, Random, SUFFIX, testSchema } from './fixture.js';
import { type Told, WRITERS } from './kill-model.js';
import { write } from './kill-writer.js';

/**
 * Eight writers, or some of them, who say on the standard output what they begin and what is done, until they are
 * killed. What takes long is done first; then a line of standard input tells where to write: STORE SEED [FIRST COUNT
 * LEASE] as a JSON array. STORE is a folder or the URL of an HBase, LEASE its front ends' lease in ms.
 */

function tell(told: Told): void {
  writeSync(1, `${JSON.stringify(told)}\n`);
}

/** The line; nobody is left to say one when the input ends. */
async function told(): Promise<string[]> {
  for await (const line of createInterface(process.stdin)) return JSON.parse(line);
  process.exit(0);
}

testSchema();
const [place, seed, first = '0', count = String(WRITERS), lease] = await told();
const store = isHBaseUrl(place!)
  ? await openHBaseStore(hbaseSettings({ url: place!, regions: 1 }), { leaseMs: Number(lease) })
  : await openLmdbStore(place!);
const fixture = new Fixture(store, await Partition.open(store, testSchema()), undefined);
await fixture.read(SUFFIX);
const writers = Array.from({ length: Number(count) }, (_, i) => Number(first) + i);
await Promise.all(writers.map((k) => write(fixture, k, new Random(Number(seed) + k), tell, () => false)));
