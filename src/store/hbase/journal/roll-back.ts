import { batchesOf } from '../../batches.js';
import { unpackRow } from '../../row.js';
import { type Cluster, unlessDropped } from '../cluster.js';
import { KEY_ONLY } from '../rpc/filters.js';
import type { RowMutation } from '../rpc/rpc-types.js';

/**
 * Deletes the rows that a batch has written into the tables. The cells of the batch carry its ticket as timestamp,
 * which no other plan has. HBase skips files that are older than the ticket, so the scan reads little of large tables.
 * The batch's writer holds the gates of the tables, so no other plan has changed the rows.
 */
export async function rollBackBatch(cluster: Cluster, ticket: bigint, tables: readonly string[]): Promise<void> {
  for (const tableName of tables) {
    await unlessDropped(cluster, tableName, async ({ handle, lock }) => {
      const families = handle.families.map((_, number) => number).filter((number) => number !== lock.family);
      const scan = cluster.client.scan(handle, {}, { families, filter: KEY_ONLY, timestamp: ticket });
      for await (const batch of batchesOf(scan)) {
        const deletions = batch.keys.map((key, i): RowMutation => {
          const columns = unpackRow(batch.rows[i]!).map(({ family, qualifier }) => ({ family, qualifier }));
          return { key, delete: columns, timestamp: ticket };
        });
        await cluster.client.putMany(handle, deletions);
      }
    });
  }
}
