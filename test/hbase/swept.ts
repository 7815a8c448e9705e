import { setTimeout as sleep } from 'node:timers/promises';
import type { HBaseStore } from '../../src/store/hbase/index.js';
import { JOURNAL_TABLE } from '../../src/store/hbase/journal/journal-tables.js';
import { internalHandle } from '../../src/store/hbase/schema/index.js';
import type { HBaseSettings } from '../../src/store/hbase/settings.js';

/**
 * Resolves when the journal has nothing of other writers than so many that live: what those had begun is finished or
 * dropped.
 */
export async function swept(store: HBaseStore, settings: HBaseSettings, living: number): Promise<void> {
  const journal = internalHandle(settings, JOURNAL_TABLE);
  for (;;) {
    const scan = store.client.scan(journal, {}, { keysOnly: true });
    let rows = 0;
    for (let batch = await scan.next(); batch; batch = await scan.next()) rows += batch.keys.length;
    if (rows <= living) return;
    await sleep(50);
  }
}
