import type { Batch, Maybe } from './contract.js';
import { isPromise } from './maybe.js';

interface Batches<B> {
  next(): Maybe<B | undefined>;
  close(): void;
}

/**
 * Yields the batches of a scan and closes the scan at the end, also after an error. Each batch costs some microtasks.
 * The passes of a search (`scanPart`, `Passes`) avoid that cost when the engine is synchronous.
 */
export async function* batchesOf<B = Batch>(scan: Batches<B>): AsyncGenerator<B, void, undefined> {
  try {
    for (;;) {
      const next = scan.next();
      const batch = isPromise(next) ? await next : next;
      if (!batch) return;
      yield batch;
    }
  } finally {
    scan.close();
  }
}

/** All keys of a scan. For scans with few rows or a limit. */
export async function keysOf(scan: Batches<Pick<Batch, 'keys'>>): Promise<Buffer[]> {
  const allKeys: Buffer[] = [];
  for await (const { keys } of batchesOf(scan)) allKeys.push(...keys);
  return allKeys;
}
