import { GATES_TABLE, JOURNAL_TABLE } from '../../src/store/hbase/journal/journal-tables.js';
import { HBaseClient } from '../../src/store/hbase/rpc/client.js';
import type { TableHandle } from '../../src/store/hbase/rpc/rpc-types.js';
import { TableRegistry } from '../../src/store/hbase/schema/index.js';
import type { HBaseSettings } from '../../src/store/hbase/settings.js';

/** What write plans have left where nobody writes: rows of the journal, and locked rows, whoever holds them. */
export async function residue(settings: HBaseSettings): Promise<string[]> {
  const client = new HBaseClient(settings);
  const registry = new TableRegistry(client, settings);
  async function rows(table: TableHandle, families?: readonly number[]): Promise<string[]> {
    const found: string[] = [];
    const scan = client.scan(table, {}, families ? { families, keysOnly: true } : { keysOnly: true });
    for (let batch = await scan.next(); batch; batch = await scan.next())
      found.push(...batch.keys.map((key) => `${table.name} ${key.toString('hex')}`));
    return found;
  }
  try {
    const found = [await rows(registry.internal(JOURNAL_TABLE)), await rows(registry.internal(GATES_TABLE))];
    for (const spec of await registry.list()) found.push(await rows(registry.handle(spec), [spec.families.length]));
    return found.flat();
  } finally {
    await client.close();
  }
}
