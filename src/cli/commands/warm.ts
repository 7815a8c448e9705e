import type { Command } from 'commander';
import { CliError, formatNumber } from '../exit.js';
import { directoryAction, type OpenDirectory } from '../open-directory.js';
import { directoryCommand } from '../options.js';
import { Progress } from '../progress.js';

const EXAMPLES = `
Examples:
  After a restart of the machine, beside the server that has just started:
    rowan warm --data /var/lib/rowan

  After loading more than the memory holds, of which the last part is in memory, not what searches want:
    rowan import --data data people.ldif && rowan warm --data data
`;

async function warm({ partition, address }: OpenDirectory): Promise<void> {
  if (partition.store.supports.spread)
    throw new CliError(`${address}: HBase has caches of its own; warm is for a folder`);
  const progress = new Progress('warm', 'entries');
  const { entryCount, indexRowCount } = await partition.warm((phase, done) => {
    progress.phase(phase);
    progress.update(done);
  });
  progress.finish();
  process.stdout.write(`read ${formatNumber(entryCount)} entries and ${formatNumber(indexRowCount)} index rows\n`);
}

export function addWarm(program: Command): void {
  const description = 'read indexes and entries into memory, so that the first searches need not wait';
  directoryCommand(program, 'warm', description, EXAMPLES).action(directoryAction({ readOnly: true }, warm));
}
