/**
 * A client in a process of its own, so that what others do to the server is not delayed by what they do to themselves:
 * searches for one person after another while it is told to, and says how long a search sent at any moment would have
 * waited. What other processes of the machine take is left out, where the system tells it.
 */
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { ADMIN, PASSWORD, SUFFIX } from '../../cli/rowan.js';
import { RawClient, searchRequest } from '../raw-client.js';

export interface Waits {
  /** Searches answered. */
  readonly count: number;
  /** In milliseconds; one of a hundred moments is worse. */
  readonly p99: number;
  /** The same with what other processes, and the server's own other threads, took of the processors. */
  readonly p99WithAll: number;
  readonly longest: number;
}

/**
 * Milliseconds that this process and the server's first thread were ready to run and other processes had the
 * processors.
 */
function delayed(): number {
  const delay = (path: string): number => Number(readFileSync(path, 'latin1').split(' ')[1]) / 1e6;
  try {
    return delay(`/proc/${server}/task/${server}/schedstat`) + delay('/proc/thread-self/schedstat');
  } catch {
    return 0;
  }
}

/** Between an answer and the next search: the probe is not to be a load itself. */
const GAP_MS = 1;

/** Ends what the probe does now. */
let end: AbortController | undefined;

async function probe(client: RawClient, people: number, { signal }: AbortController): Promise<Waits> {
  const waits: number[] = [];
  const withAll: number[] = [];
  const began = performance.now();
  for (let n = 0; !signal.aborted; n = (n + 7919) % people) {
    const filter = { type: 'equal', attribute: 'uid', value: Buffer.from(`user.${n}`) } as const;
    const before = delayed();
    const sent = performance.now();
    const { entries } = await client.request(searchRequest(SUFFIX, { scope: 'sub', filter }));
    const wait = performance.now() - sent;
    withAll.push(wait);
    waits.push(Math.max(0, wait - (delayed() - before)));
    if (entries.length !== 1) throw new Error(`user.${n} was not found`);
    await sleep(GAP_MS);
  }
  const time = performance.now() - began;
  const longest = Math.max(...waits);
  return { count: waits.length, p99: p99(waits, time), p99WithAll: p99(withAll, time), longest };
}

/**
 * Of all moments, not of all searches: a block of two seconds delays one search of the probe, and all that others would
 * have sent meanwhile. Who comes `t` into a wait waits for the rest of it.
 */
function p99(waits: number[], time: number): number {
  const worst = waits.sort((a, b) => b - a);
  let sum = 0;
  for (let k = 1; k <= worst.length; k++) {
    sum += worst[k - 1]!;
    // So long is what one per cent of the time exceeds, if it lies between this wait and the next one.
    const bound = (sum - time / 100) / k;
    if (bound >= (worst[k] ?? 0)) return Math.max(bound, 0);
  }
  return 0;
}

const [port, server, people] = process.argv.slice(2).map(Number) as [number, number, number];
const client = await RawClient.open(port);
if ((await client.bind(ADMIN, PASSWORD)) !== 0) throw new Error('the probe cannot bind');
process.on('message', (order: 'begin' | 'end') => {
  end?.abort();
  if (order === 'end') return;
  end = new AbortController();
  void probe(client, people, end).then((waits) => process.send!(waits));
});
process.once('disconnect', () => process.exit());
process.send!('ready');
