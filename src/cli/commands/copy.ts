import { resolve } from 'node:path';
import type { Command } from 'commander';
import type { Config } from '../../server/settings/index.js';
import type { Store } from '../../store/contract.js';
import { isHBaseUrl } from '../../store/hbase/settings.js';
import { addSettingFlags } from '../config/index.js';
import { Copier } from '../copy/copier.js';
import { CopyState } from '../copy/state.js';
import { pluralize, UsageError } from '../exit.js';
import { loadSettings } from '../options.js';
import { Progress } from '../progress.js';
import { openStore } from '../store.js';

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
  if (restart) await CopyState.remove(to);
  const progress = new Progress('copy', 'rows');
  let rowCount = 0;
  try {
    await new Copier(from, to, {
      beginTable: (name) => progress.phase(name),
      addRows: (addedCount) => {
        rowCount += addedCount;
        progress.update(rowCount);
      },
    }).run();
  } finally {
    progress.finish();
  }
  return rowCount;
}

async function withStores<T>(
  flags: CopyFlags,
  config: Config,
  work: (from: Store, to: Store) => Promise<T>,
): Promise<T> {
  const from = await openStore(resolveAddress(flags.from), config, { create: false, readOnly: true, inOrder: true });
  try {
    const to = await openStore(resolveAddress(flags.to), config, { create: true, patient: true });
    try {
      return await work(from, to);
    } finally {
      await to.close();
    }
  } finally {
    await from.close();
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
      const count = await withStores(flags, config, (from, to) => copy(from, to, flags.restart === true));
      process.stdout.write(`copied ${pluralize(count, 'row')} from ${flags.from} to ${flags.to}\n`);
    });
  addSettingFlags(command, ['hbase.site', 'hbase.rest', 'hbase.durability', 'hbase.regions']);
}
