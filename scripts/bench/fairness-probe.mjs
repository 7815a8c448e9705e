/**
 * The probing client of `fairness.mjs`. A process of its own keeps the load from delaying the probe. On command it
 * searches for one person after another, and reports how long it waited.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { ADMIN, PASSWORD } from '../../dist/test/cli/rowan.js';
import { Arena } from '../../dist/test/server/fairness/arena.js';
import { RawClient } from '../../dist/test/server/raw-client.js';

/** Pause between an answer and the next search, so that the probe is no load itself. */
const GAP_MS = 1;

/** Ends the current measurement. */
let end;

async function probe(client, { signal }) {
  const waits = [];
  const began = performance.now();
  while (!signal.aborted) {
    const sent = performance.now();
    await Arena.find(client, waits.length);
    waits.push(performance.now() - sent);
    await sleep(GAP_MS);
  }
  const worst = waits.sort((a, b) => b - a);
  return { p50: worst[worst.length >> 1], p99: p99(worst, performance.now() - began), longest: worst[0] };
}

/**
 * The percentile over moments, not over searches: a block of two seconds delays only one search of the probe, but all
 * searches that other clients would have sent meanwhile. A client that arrives `t` into a wait waits for the rest of
 * it.
 */
function p99(worst, time) {
  let sum = 0;
  for (let k = 1; k <= worst.length; k++) {
    sum += worst[k - 1];
    // The wait exceeded during one per cent of the time, if it lies between this wait and the next.
    const bound = (sum - time / 100) / k;
    if (bound >= (worst[k] ?? 0)) return Math.max(bound, 0);
  }
  return 0;
}

const client = await RawClient.open(Number(process.argv[2]));
if ((await client.bind(ADMIN, PASSWORD)) !== 0) throw new Error('the probe cannot bind');
process.on('message', (order) => {
  end?.abort();
  if (order === 'end') return;
  end = new AbortController();
  void probe(client, end).then((waits) => process.send(waits));
});
process.once('disconnect', () => process.exit());
process.send('ready');
