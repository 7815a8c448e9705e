/**
 * `npm run soak -- N`: kills a process of eight writers with -9 N times (default 1,000) and verifies the directory after
 * each, as the test run does 50 times. ROWAN_SEED chooses the seed.
 */
import { Random } from '../dist/test/partition/fixture.js';
import { killRounds } from '../dist/test/partition/kill.js';

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
