import type { Batch, Maybe } from './contract.js';
import { isPromise } from './maybe.js';

interface Batches<B> {
  next(): Maybe<B | undefined>;
  close(): void;
}

/**
 * The batches of a scan, which is closed however this ends. Each costs some turns of the queue of promises, which the
 * passes of a search (`scanPart`, `Passes`) do without where the engine answers at once.
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

/** All keys of a scan: one that gives few, or has a limit. */
export async function keysOf(scan: Batches<Pick<Batch, 'keys'>>): Promise<Buffer[]> {
  const all: Buffer[] = [];
  for await (const { keys } of batchesOf(scan)) all.push(...keys);
  return all;
}
