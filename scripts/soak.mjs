/**
 * `npm run soak -- N`: kills a process of eight writers with -9 N times (default 1,000) and verifies the directory after
 * each, as the test run does 50 times. `ROWAN_HBASE_KILLS=N npm run soak` does the same with front ends over HBase, as the test run does
 * 30 times, and then lets the tests that cut and delay connections, and kill HBase, do more. ROWAN_SEED chooses the seed.
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { Random } from '../dist/test/partition/fixture.js';
import { killRounds } from '../dist/test/partition/kill.js';

if (process.env.ROWAN_HBASE_KILLS !== undefined) {
  const test = fileURLToPath(new URL('test.mjs', import.meta.url));
  const files = ['hbase/kill', 'hbase/relay', 'hbase/faults'];
  const { status } = spawnSync(process.execPath, [test, ...files], {
    stdio: 'inherit',
    env: { ...process.env, ROWAN_SOAK: '1', ROWAN_TEST_REQUIRE: 'all' },
  });
  process.exit(status ?? 1);
}

const rounds = Number(process.argv[2] ?? 1000);
if (!(Number.isInteger(rounds) && rounds > 0)) {
  process.stderr.write('usage: npm run soak -- ROUNDS\n');
  process.exit(2);
}
const random = new Random();
process.stdout.write(`ROWAN_SEED=${random.seed}\n`);
await killRounds(rounds, random, (round, acknowledged) => {
  if (round % 10 === 0 || round === rounds)
    process.stdout.write(`${round} kills, ${acknowledged} operations acknowledged, no breach\n`);
});
