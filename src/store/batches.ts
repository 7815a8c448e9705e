import type { Batch, Maybe } from './contract.js';
import { isPromise } from './maybe.js';

interface Batches<B> {
  next(): Maybe<B | undefined>;
  close(): void;
}

/**
 * Yields the batches of a scan and closes the scan at the end, also after an error. Each batch costs some microtasks,
 * which `scanPart` of a search saves by calling the scan directly.
 */
export async function* batchesOf<B = Batch>(scan: Batches<B>): AsyncGenerator<B, void, undefined> {
  try {
    for (;;) {
      const result = scan.next();
      const batch = isPromise(result) ? await result : result;
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
