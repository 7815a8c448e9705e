import { batchesOf } from '../../store/batches.js';
import type { LoadRow, Reader, TableSpec } from '../../store/contract.js';
import { EMPTY } from '../../store/row.js';

const MAX_ROWS = 4000;
const MAX_BYTES = 8 * 1024 * 1024;

export interface CopyBatch {
  readonly rows: readonly LoadRow[];
  /** Rows of the table. In an index table each posting counts. */
  readonly count: number;
  /** Last source key of the batch. */
  readonly last: Buffer;
}

/** Collects rows in the form that `ingest` takes. */
interface Collector {
  add(key: Buffer, row: Buffer): void;
  rows(): LoadRow[];
}

function rowCollector(): Collector {
  const rows: LoadRow[] = [];
  return { add: (key, row) => rows.push({ key, row }), rows: () => rows };
}

/** Groups keys by prefix, and sorts the groups: the scan may mix prefixes of different lengths. */
function postingCollector(suffixBytes: number): Collector {
  const lists = new Map<string, Buffer[]>();
  return {
    add: (key) => {
      const end = key.length - suffixBytes;
      const prefix = key.toString('latin1', 0, end);
      const list = lists.get(prefix);
      if (list) list.push(key.subarray(end));
      else lists.set(prefix, [key.subarray(end)]);
    },
    rows: () =>
      [...lists]
        .map(([prefix, list]) => ({ key: Buffer.from(prefix, 'latin1'), row: Buffer.concat(list) }))
        .sort((a, b) => a.key.compare(b.key)),
  };
}

/** Yields the rows of a table after key `after`, in batches. */
export async function* readBatches(
  reader: Reader,
  spec: TableSpec,
  after: Buffer | undefined,
): AsyncGenerator<CopyBatch> {
  const keysOnly = spec.suffixBytes !== undefined;
  const collect = (): Collector =>
    spec.suffixBytes === undefined ? rowCollector() : postingCollector(spec.suffixBytes);
  const scan = reader.scan(spec.name, {}, { keysOnly, after });
  let collector = collect();
  let [count, bytes] = [0, 0];
  let last: Buffer = EMPTY;
  for await (const batch of batchesOf(scan)) {
    for (const [i, key] of batch.keys.entries()) {
      const row = batch.rows[i] ?? EMPTY;
      collector.add(key, row);
      count++;
      bytes += key.length + row.length;
      last = key;
      if (count < MAX_ROWS && bytes < MAX_BYTES) continue;
      yield { rows: collector.rows(), count, last };
      collector = collect();
      [count, bytes] = [0, 0];
    }
  }
  if (count > 0) yield { rows: collector.rows(), count, last };
}
