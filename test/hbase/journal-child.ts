import { openHBaseStore } from '../../src/store/hbase/index.js';
import { hbaseSettings } from '../../src/store/hbase/settings.js';
import { plan } from './journal-plan.js';

/**
 * A front end that is killed. Arguments: URL, lease in ms, what it does, at which point (from 0; -1: none) it gets
 * which signal. `run:NAME` applies the plan of that run; `sweep` looks after others until it is killed or its input
 * ends. Prints every point it passes.
 */
const [url, lease, what, at, signal] = process.argv.slice(2) as [string, string, string, string, NodeJS.Signals];
let passed = 0;
let armed = what === 'sweep';

const store = await openHBaseStore(hbaseSettings({ url, regions: 1 }), {
  leaseMs: Number(lease),
  failpoint: (name) => {
    if (!armed) return;
    process.stdout.write(`point ${name}\n`);
    if (passed++ === Number(at)) process.kill(process.pid, signal);
  },
});
process.stdout.write('open\n');
if (what.startsWith('run:')) {
  armed = true;
  await store.commit(plan(what.slice(4)));
  armed = false;
  process.stdout.write('done\n');
  await store.close();
} else {
  process.stdin.resume();
  process.stdin.once('end', () => void store.close());
}
