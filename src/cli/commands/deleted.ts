import { type Command, InvalidArgumentError } from 'commander';
import { type Partition, parseUuid, uuidText } from '../../partition/index.js';
import { CliError, formatNumber, pluralize } from '../exit.js';
import { withDirectory } from '../open-directory.js';
import { commandGroup, directoryCommand, resolveSettings } from '../options.js';

const DAY_MS = 86_400_000;

const EXAMPLES = `
Examples:
  What was deleted, when and by whom:
    rowan deleted list --data data

  Bring one back, with its entryUUID and all its values:
    rowan deleted restore 0190a3c2-5f0e-7b11-9c3f-2a4d5e6f7081 --data data

  With all that was deleted below it in the same hour:
    rowan deleted restore 0190a3c2-5f0e-7b11-9c3f-2a4d5e6f7081 --subtree --since 2026-11-23T08:00Z --data data

  Forget what was deleted more than a week ago, or everything:
    rowan deleted purge --older-than 7 --data data
    rowan deleted purge --all --data data
`;

export function parseDays(text: string): number {
  const days = Number(text);
  if (text.trim() === '' || !(days >= 0 && days <= 1e6)) throw new InvalidArgumentError('is not a number of days');
  return days;
}

function parseId(text: string): Buffer {
  try {
    return parseUuid(text);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    throw new InvalidArgumentError('is not an entryUUID; "rowan deleted list" shows them');
  }
}

/** Milliseconds since 1970. */
function parseTime(text: string): number {
  const time = Date.parse(text);
  if (Number.isNaN(time)) throw new InvalidArgumentError('is not a time; "rowan deleted list" shows them');
  return time;
}

interface RestoreOptions {
  readonly subtree?: boolean;
  readonly since?: number;
}

async function restore(partition: Partition, id: Buffer, { subtree, since = 0 }: RestoreOptions): Promise<void> {
  const actor = { dn: partition.settings.adminDn, system: true };
  const printRestored = (dn: string): void => void process.stdout.write(`restored ${dn}\n`);
  if (!subtree) return printRestored(await partition.restore(id, actor));
  let restoredCount = 0;
  let keptCount = 0;
  await partition.restoreSubtree(id, actor, {
    since,
    onRestored: (dn) => {
      restoredCount++;
      printRestored(dn);
    },
    onNotRestored: (entry, error) => {
      keptCount++;
      process.stdout.write(`left ${uuidText(entry.id)}  ${entry.dn}: ${error.message}\n`);
    },
  });
  process.stdout.write(`restored: ${formatNumber(restoredCount)}\n`);
  if (keptCount > 0)
    throw new CliError(`${pluralize(keptCount, 'entry stays', 'entries stay')} deleted: see the lines above`);
}

export function addDeletedCommands(program: Command): void {
  const group = commandGroup(program, 'deleted', 'list, restore and purge deleted entries', EXAMPLES);

  directoryCommand(group, 'list', 'show deleted entries that can be restored', EXAMPLES).action(
    (_options: object, command: Command) =>
      withDirectory(resolveSettings(command), { readOnly: true }, async ({ partition }) => {
        for await (const entry of partition.deletedEntries()) {
          const time = new Date(entry.time).toISOString();
          process.stdout.write(`${uuidText(entry.id)}  ${time}  ${entry.dn}  (by ${entry.by || 'the server'})\n`);
        }
      }),
  );

  directoryCommand(group, 'restore', 'bring a deleted entry back', EXAMPLES)
    .argument('<entryUUID>', 'as "rowan deleted list" shows it', parseId)
    .option('--subtree', 'also what was deleted below it; the entry itself may exist')
    .option('--since <time>', 'below it, only entries deleted then or later', parseTime)
    .action((id: Buffer, options: RestoreOptions, command: Command) => {
      if (options.since !== undefined && !options.subtree) command.error("error: '--since' goes with '--subtree'");
      return withDirectory(resolveSettings(command), {}, ({ partition }) => restore(partition, id, options));
    });

  directoryCommand(group, 'purge', 'remove deleted entries for good', EXAMPLES)
    .option('--older-than <days>', 'only entries deleted at least this many days ago', parseDays)
    .option('--all', 'all deleted entries')
    .action((options: { olderThan?: number; all?: boolean }, command: Command) => {
      if ((options.olderThan === undefined) === (options.all !== true))
        command.error("error: give either '--older-than <days>' or '--all'");
      return withDirectory(resolveSettings(command), {}, async ({ partition }) => {
        const now = Date.now();
        const purgedCount = await partition.purge(options.all ? now + DAY_MS : now - options.olderThan! * DAY_MS);
        process.stdout.write(`purged: ${formatNumber(purgedCount)}\n`);
      });
    });
}
