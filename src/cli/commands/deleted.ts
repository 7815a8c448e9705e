import { type Command, InvalidArgumentError } from 'commander';
import { parseUuid, uuidText } from '../../partition/index.js';
import { withDirectory } from '../directory.js';
import { formatCount } from '../exit.js';
import { directoryCommand, settingsOf } from '../options.js';

const DAY_MS = 86_400_000;

const EXAMPLES = `
Examples:
  What was deleted, when and by whom:
    rowan deleted list --data data

  Bring one back, with its entryUUID and all its values:
    rowan deleted restore 0190a3c2-5f0e-7b11-9c3f-2a4d5e6f7081 --data data

  Forget what was deleted more than a week ago, or everything:
    rowan deleted purge --older-than 7 --data data
    rowan deleted purge --all --data data
`;

function parseDays(text: string): number {
  const days = Number(text);
  if (text.trim() === '' || !(days >= 0 && days <= 1e6)) throw new InvalidArgumentError('a number of days is wanted.');
  return days;
}

function parseId(text: string): Buffer {
  try {
    return parseUuid(text);
  } catch (error) {
    throw new InvalidArgumentError(
      `an entryUUID as "rowan deleted list" shows it is wanted (${(error as Error).message}).`,
    );
  }
}

export function addDeleted(program: Command): void {
  const deleted = program
    .command('deleted')
    .description('list, restore and purge deleted entries')
    .addHelpText('after', EXAMPLES);

  directoryCommand(deleted, 'list', 'show deleted entries that can be restored')
    .addHelpText('after', EXAMPLES)
    .action((_options: object, command: Command) =>
      withDirectory(settingsOf(command), { readOnly: true }, async ({ partition }) => {
        for await (const entry of partition.deletedEntries()) {
          const when = new Date(entry.time).toISOString();
          process.stdout.write(`${uuidText(entry.id)}  ${when}  ${entry.dn}  (by ${entry.by || 'the server'})\n`);
        }
      }),
    );

  directoryCommand(deleted, 'restore', 'bring a deleted entry back')
    .argument('<entryUUID>', 'as "rowan deleted list" shows it', parseId)
    .addHelpText('after', EXAMPLES)
    .action((id: Buffer, _options: object, command: Command) =>
      withDirectory(settingsOf(command), {}, async ({ partition }) => {
        const dn = await partition.restore(id, { dn: partition.settings.adminDn, system: true });
        process.stdout.write(`restored ${dn}\n`);
      }),
    );

  directoryCommand(deleted, 'purge', 'remove deleted entries for good')
    .option('--older-than <days>', 'only those deleted so many days ago or earlier', parseDays)
    .option('--all', 'every one of them')
    .addHelpText('after', EXAMPLES)
    .action((options: { olderThan?: number; all?: boolean }, command: Command) => {
      if ((options.olderThan === undefined) === (options.all !== true))
        command.error("error: give either '--older-than <days>' or '--all'");
      return withDirectory(settingsOf(command), {}, async ({ partition }) => {
        const now = Date.now();
        const purged = await partition.purge(options.all ? now + DAY_MS : now - options.olderThan! * DAY_MS);
        process.stdout.write(`purged: ${formatCount(purged)}\n`);
      });
    });
}
