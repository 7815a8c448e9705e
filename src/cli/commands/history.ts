import { type Command, Option } from 'commander';
import { LEFT_OUT } from '../../ldif/index.js';
import { changesOf, hiddenValues, lastIdOf } from '../../partition/history/entry-change.js';
import { FormerRows } from '../../partition/history/former-rows.js';
import type { Partition } from '../../partition/index.js';
import { CliError } from '../exit.js';
import { parseDnArgument, withDirectory } from '../open-directory.js';
import { directoryCommand, resolveSettings } from '../options.js';
import { formatRecord } from './changes.js';
import { parseName } from './deleted.js';
import { parseTime } from './search.js';

const NAME = 'DN, of the entry that has it, or had it last, or entryUUID';

const HISTORY_EXAMPLES = `
Examples:
  Who changed what of an entry, and when; also of one that is renamed or deleted:
    rowan history uid=ada,ou=people,dc=example,dc=com --data data
    rowan history 0190a3c2-5f0e-7b11-9c3f-2a4d5e6f7081 --since 2026-11-27T12:00Z --format json --data data

Removed values are those of "delete:" lines, new ones those of "add:" lines. Secrets and values over 64 KiB are only
named.
`;

interface HistoryOptions {
  readonly since?: number;
  readonly format: 'ldif' | 'json';
}

async function idOf(partition: Partition, name: Buffer | string): Promise<Buffer> {
  if (typeof name !== 'string') return name;
  const dn = parseDnArgument(partition.schema, name);
  const id = (await partition.findRow(dn))?.id ?? (await lastIdOf(partition, dn));
  if (!id) throw new CliError(`no entry has the name '${name}', and no change of one is kept`);
  return id;
}

function remarksOf(hidden: readonly string[]): string {
  return hidden.map((text) => `${LEFT_OUT}${text}\n`).join('');
}

async function writeHistory(partition: Partition, name: Buffer | string, options: HistoryOptions): Promise<void> {
  const id = await idOf(partition, name);
  const { steps } = await (await FormerRows.openKept(partition.store, [id], options.since)).stepsOf(id);
  for (const step of steps.reverse()) {
    const lacks = step.after ? hiddenValues(partition, step) : ['all values, purged'];
    const remarks = step.record.op === 'delete' ? '' : remarksOf(lacks);
    process.stdout.write(formatRecord(step.record, { changes: changesOf(partition, step), remarks }, options.format));
  }
}

export function addHistory(program: Command): void {
  directoryCommand(program, 'history', 'write who changed what of an entry, and when', HISTORY_EXAMPLES)
    .argument('<name>', NAME, parseName)
    .option('--since <time>', 'only changes after this time, such as 2026-11-27T12:00Z', parseTime)
    .addOption(new Option('--format <format>', 'LDIF or JSON lines').choices(['ldif', 'json']).default('ldif'))
    .action((name: Buffer | string, options: HistoryOptions, command: Command) =>
      withDirectory(resolveSettings(command), { readOnly: true }, ({ partition }) =>
        writeHistory(partition, name, options),
      ),
    );
}
