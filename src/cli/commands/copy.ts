import { resolve } from 'node:path';
import type { Command } from 'commander';
import type { Config } from '../../server/settings/index.js';
import type { Store } from '../../store/contract.js';
import { isHBaseUrl } from '../../store/hbase/settings.js';
import { addSettingFlags } from '../config/index.js';
import { copyDirectory, removeUnfinishedCopy } from '../copy/copier.js';
import { pluralize, UsageError } from '../exit.js';
import { openStore } from '../open-directory.js';
import { loadSettings } from '../options.js';
import { Progress } from '../progress.js';

const EXAMPLES = `
Examples:
  From a data folder into HBase, and back:
    rowan copy --from /var/lib/rowan --to hbase://master1:16000,master2:16000/acme
    rowan copy --from hbase://master1:16000/acme --to /var/lib/rowan

A copy that was interrupted is taken up by the same command. A folder is copied as it is when the copy begins, also while
it is served; from HBase nobody may write meanwhile. The copy has the same entries, entryUUIDs, passwords and settings.
`;

interface CopyFlags {
  readonly from: string;
  readonly to: string;
  readonly restart?: boolean;
}

function resolveAddress(text: string): string {
  return isHBaseUrl(text) ? text : resolve(text);
}

async function copy(from: Store, to: Store, restart: boolean): Promise<number> {
  if (restart) await removeUnfinishedCopy(to);
  const progress = new Progress('copy', 'rows');
  let rowCount = 0;
  try {
    await copyDirectory(from, to, (table, count) => {
      progress.phase(table);
      rowCount += count;
      progress.update(rowCount);
    });
  } finally {
    progress.finish();
  }
  return rowCount;
}

async function withStores({ from, to, restart = false }: CopyFlags, config: Config): Promise<number> {
  const source = await openStore(resolveAddress(from), config, { create: false, readOnly: true, inOrder: true });
  try {
    const target = await openStore(resolveAddress(to), config, { create: true, patient: true });
    return await copy(source, target, restart).finally(() => target.close());
  } finally {
    await source.close();
  }
}

export function addCopy(program: Command): void {
  const command = program
    .command('copy')
    .description('copy a directory between a folder and HBase')
    .requiredOption('--from <store>', 'folder or hbase:// URL of the directory')
    .requiredOption('--to <store>', 'folder or hbase:// URL of the copy; nothing may be there')
    .option('--restart', 'begin anew where a copy was interrupted')
    .addHelpText('after', EXAMPLES)
    .action(async (flags: CopyFlags, self: Command) => {
      const { config } = loadSettings(self);
      if (resolveAddress(flags.from) === resolveAddress(flags.to)) throw new UsageError('--from and --to are the same');
      const count = await withStores(flags, config);
      process.stdout.write(`copied ${pluralize(count, 'row')} from ${flags.from} to ${flags.to}\n`);
    });
  addSettingFlags(command, ['hbase.site', 'hbase.rest', 'hbase.durability', 'hbase.regions']);
}
