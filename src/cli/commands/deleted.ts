import { type Command, InvalidArgumentError } from 'commander';
import { type Partition, parseUuid, uuidText } from '../../partition/index.js';
import { CliError, formatNumber, pluralize } from '../exit.js';
import { directoryAction, rejectAsUsage, withDirectory } from '../open-directory.js';
import { commandGroup, directoryCommand, resolveSettings } from '../options.js';
import { parseTime } from './search.js';

const DAY_MS = 86_400_000;

const EXAMPLES = `
Examples:
  What was deleted, when and by whom:
    rowan deleted list --data data

  Bring one back, with its entryUUID and all its values; by its DN, the one that was deleted last:
    rowan deleted restore uid=ann,ou=people,dc=example,dc=com --data data
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

/** Returns an entryUUID as such, and a DN as it is. */
export function parseName(text: string): Buffer | string {
  try {
    return parseUuid(text);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    if (text.includes('=')) return text;
    throw new InvalidArgumentError('is neither an entryUUID nor a DN; "rowan deleted list" shows them');
  }
}

/**
 * Returns the entryUUID of the last entry of this DN that was deleted, at `at` or before. With `subtree`, an entry that
 * has the DN now takes precedence, unless `at` is given.
 */
async function idOf(partition: Partition, text: string, { subtree, at }: RestoreOptions): Promise<Buffer> {
  const dn = rejectAsUsage(() => partition.schema.parseDn(text));
  const existing = subtree && at === undefined ? await partition.findRow(dn) : undefined;
  if (existing) return existing.id;
  const dnMatch = partition.schema.rule('distinguishedNameMatch')!;
  let last: { readonly id: Buffer; readonly time: number } | undefined;
  for await (const entry of partition.deletedEntries()) {
    if (entry.time > (at ?? Number.POSITIVE_INFINITY) || (last && entry.time < last.time)) continue;
    if (dnMatch.normalize(Buffer.from(entry.dn))?.equals(dn.norm)) last = entry;
  }
  if (last) return last.id;
  throw new CliError(`no entry '${text}' was deleted${at === undefined ? '' : ' by then'}; see "rowan deleted list"`);
}

interface RestoreOptions {
  readonly subtree?: boolean;
  readonly since?: number;
  readonly at?: number;
}

async function restore(partition: Partition, name: Buffer | string, options: RestoreOptions): Promise<void> {
  const { subtree, since = 0 } = options;
  const actor = { dn: partition.settings.adminDn, system: true };
  const id = typeof name === 'string' ? await idOf(partition, name, options) : name;
  if (!subtree) {
    process.stdout.write(`restored ${await partition.restore(id, actor)}\n`);
    return;
  }
  let restoredCount = 0;
  let keptCount = 0;
  await partition.restoreSubtree(id, actor, {
    since,
    onRestored: () => {
      restoredCount++;
    },
    onNotRestored: (entry, error) => {
      keptCount++;
      process.stdout.write(`left ${uuidText(entry.id)}  ${entry.dn}: ${error.message}\n`);
    },
  });
  const topDn = (await partition.readById(id))?.dn ?? uuidText(id);
  process.stdout.write(`restored ${pluralize(restoredCount, 'entry', 'entries')} at and below ${topDn}\n`);
  if (keptCount > 0)
    throw new CliError(`${pluralize(keptCount, 'entry stays', 'entries stay')} deleted: see the lines above`);
}

export function addDeletedCommands(program: Command): void {
  const group = commandGroup(program, 'deleted', 'list, restore and purge deleted entries', EXAMPLES);

  directoryCommand(group, 'list', 'show deleted entries that can be restored', EXAMPLES).action(
    directoryAction({ readOnly: true }, async ({ partition }) => {
      for await (const entry of partition.deletedEntries()) {
        const time = new Date(entry.time).toISOString();
        process.stdout.write(`${uuidText(entry.id)}  ${time}  ${entry.dn}  (by ${entry.by || 'the server'})\n`);
      }
    }),
  );

  directoryCommand(group, 'restore', 'bring a deleted entry back', EXAMPLES)
    .argument('<name>', 'DN, of the last deletion, or entryUUID, as "rowan deleted list" shows them', parseName)
    .option('--at <time>', 'of the entries of that DN, the last that was deleted then or before', parseTime)
    .option('--subtree', 'also what was deleted below it; the entry itself may exist')
    .option('--since <time>', 'below it, only entries deleted then or later', parseTime)
    .action((name: Buffer | string, options: RestoreOptions, command: Command) => {
      if (options.at !== undefined && typeof name !== 'string') command.error("error: '--at' goes with a DN");
      if (options.since !== undefined && !options.subtree) command.error("error: '--since' goes with '--subtree'");
      return withDirectory(resolveSettings(command), {}, ({ partition }) => restore(partition, name, options));
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
