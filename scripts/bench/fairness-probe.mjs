/**
 * The client that `fairness.mjs` watches, in a process of its own, so that what the load does to its own process
 * delays it nothing: searches for one person after another while it is told to, and says what it waited.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { ADMIN, PASSWORD } from '../../dist/test/cli/rowan.js';
import { Arena } from '../../dist/test/server/fairness/arena.js';
import { RawClient } from '../../dist/test/server/raw-client.js';

/** Between an answer and the next search: the probe is not to be a load itself. */
const GAP_MS = 1;

/** Ends what the probe does now. */
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
 * Of all moments, not of all searches: a block of two seconds delays one search of the probe, and all that others would
 * have sent meanwhile. Who comes `t` into a wait waits for the rest of it.
 */
function p99(worst, time) {
  let sum = 0;
  for (let k = 1; k <= worst.length; k++) {
    sum += worst[k - 1];
    // So long is what one per cent of the time exceeds, if it lies between this wait and the next one.
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
