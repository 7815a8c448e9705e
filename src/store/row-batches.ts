import type { LoadRow, Reader, TableSpec } from './contract.js';
import { batchesOf } from './maybe.js';
import { EMPTY } from './row.js';

const MAX_ROWS = 4000;
const MAX_BYTES = 8 * 1024 * 1024;

export interface RowBatch {
  readonly rows: readonly LoadRow[];
  /** Rows of the table. In an index table each posting counts. */
  readonly rowCount: number;
  /** Last source key of the batch. */
  readonly lastKey: Buffer;
}

/** Collects rows in the form that `ingest` takes. */
interface RowCollector {
  add(key: Buffer, row: Buffer): void;
  rows(): LoadRow[];
}

function makeRowCollector(): RowCollector {
  const rows: LoadRow[] = [];
  return { add: (key, row) => rows.push({ key, row }), rows: () => rows };
}

/** Groups keys by prefix, and sorts the groups: the scan may mix prefixes of different lengths. */
function makePostingCollector(suffixBytes: number): RowCollector {
  const suffixesByPrefix = new Map<string, Buffer[]>();
  return {
    add: (key) => {
      const end = key.length - suffixBytes;
      const prefix = key.toString('latin1', 0, end);
      const suffixes = suffixesByPrefix.get(prefix);
      if (suffixes) suffixes.push(key.subarray(end));
      else suffixesByPrefix.set(prefix, [key.subarray(end)]);
    },
    rows: () =>
      [...suffixesByPrefix]
        .map(([prefix, list]) => ({ key: Buffer.from(prefix, 'latin1'), row: Buffer.concat(list) }))
        .sort((a, b) => a.key.compare(b.key)),
  };
}

/** Yields the rows of a table behind `afterKey`, in batches for `Store.ingest` of about `maxBytes` at most. */
export async function* readRowBatches(
  reader: Reader,
  spec: TableSpec,
  afterKey: Buffer | undefined,
  maxBytes = MAX_BYTES,
): AsyncGenerator<RowBatch> {
  const keysOnly = spec.suffixBytes !== undefined;
  const makeCollector = (): RowCollector =>
    spec.suffixBytes === undefined ? makeRowCollector() : makePostingCollector(spec.suffixBytes);
  const scan = reader.scan(spec.name, {}, { keysOnly, after: afterKey });
  let collector = makeCollector();
  let [rowCount, byteCount] = [0, 0];
  let lastKey: Buffer = EMPTY;
  for await (const batch of batchesOf(scan)) {
    for (const [i, key] of batch.keys.entries()) {
      const row = batch.rows[i] ?? EMPTY;
      collector.add(key, row);
      rowCount++;
      byteCount += key.length + row.length;
      lastKey = key;
      if (rowCount < MAX_ROWS && byteCount < maxBytes) continue;
      yield { rows: collector.rows(), rowCount, lastKey };
      collector = makeCollector();
      [rowCount, byteCount] = [0, 0];
    }
  }
  if (rowCount > 0) yield { rows: collector.rows(), rowCount, lastKey };
}
