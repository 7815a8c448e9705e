import { type Command, InvalidArgumentError } from 'commander';
import { recordContext } from '../../dropfolder/apply-record.js';
import { readMapping } from '../../dropfolder/csv-mapping.js';
import { DropFolder, type DropFolderSettings, type PassResult } from '../../dropfolder/drop-folder.js';
import { dryRun } from '../../dropfolder/dry-run.js';
import { DropError } from '../../dropfolder/layout.js';
import { hashPolicyOf } from '../../server/passwords/hash-policy.js';
import { CommandAuditLog } from '../audit-record.js';
import { CliError, pluralize, UsageError } from '../exit.js';
import { createLog } from '../log.js';
import { type OpenDirectory, parseDnArgument, withDirectory, withTrialDirectory } from '../open-directory.js';
import { directoryCommand, resolveSettings, type Settings } from '../options.js';

const EXAMPLES = `
Examples:
  Apply each LDIF file that is moved to drop/incoming/target, until SIGTERM; beside a server, or on several machines:
    mkdir drop && rowan dropfolder drop --data data

  From cron: what is there now, by the rights of a service account:
    rowan dropfolder drop --data data --once --as cn=hr,ou=services,dc=example,dc=com

  A producer writes elsewhere and moves the file when it is whole:
    cp people.ldif drop/incoming/working/ && mv drop/incoming/working/people.ldif drop/incoming/target/

docs/dropfolder.md has recipes: names that say priority and expiry, receipts, refused records.
`;

interface DropFlags {
  readonly as?: string;
  readonly mapping?: string;
  readonly dryRun?: boolean;
  readonly once?: boolean;
  readonly validateFirst?: boolean;
  readonly maxBytes?: number;
  readonly lease: number;
  readonly poll: number;
}

function parsePositive(text: string): number {
  const value = Number(text);
  if (!(value > 0)) throw new InvalidArgumentError('is not a number above 0');
  return value;
}

function makeSettings({ schema }: OpenDirectory, { config }: Settings, flags: DropFlags): DropFolderSettings {
  const { as, mapping, validateFirst, maxBytes, lease, poll } = { ...config.dropfolder, ...flags };
  // A mapping that cannot be used ends the command also where no CSV file waits.
  if (mapping !== undefined) readMapping(mapping, schema);
  return {
    ...{ maxBytes, lease, poll, mapping, validateFirst },
    as: as === undefined ? undefined : parseDnArgument(schema, as),
    policy: hashPolicyOf(config),
    accounts: config.passwords,
    audit: new CommandAuditLog(config).append,
  };
}

async function runFolder(
  directory: OpenDirectory,
  settings: Settings,
  folder: string,
  flags: DropFlags,
): Promise<void> {
  if (flags.dryRun) {
    const log = createLog(settings.config);
    return withTrialDirectory(directory, async ({ partition }) => {
      const trial = await recordContext(partition, makeSettings(directory, settings, flags), log);
      for await (const line of dryRun(folder, trial)) process.stdout.write(`${line}\n`);
    });
  }
  const stopController = new AbortController();
  const stop = (): void => stopController.abort();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, stop);
  const dropFolder = await DropFolder.open(
    folder,
    directory.partition,
    makeSettings(directory, settings, flags),
    createLog(settings.config),
  );
  try {
    if (flags.once) printResult(await dropFolder.settle(stopController.signal));
    else await dropFolder.run(stopController.signal);
  } finally {
    await dropFolder.close();
  }
}

function printResult({ processed, error, expired, failed }: PassResult): void {
  process.stdout.write(
    `${pluralize(processed, 'file')} processed, ${error} with refused records, ${expired} expired, ${failed} left\n`,
  );
  if (error + failed > 0)
    throw new CliError('files were refused, wholly or in part: see the receipts in incoming/error');
}

export function addDropFolder(program: Command): void {
  directoryCommand(program, 'dropfolder', 'apply LDIF and CSV files that are moved into a folder', EXAMPLES)
    .argument('[folder]', 'the drop folder; incoming/target and others are made below it (default: dropfolder.folder)')
    .option('--once', 'end when nothing is left to do, instead of waiting for files')
    .option('--as <dn>', 'with the rights of this entry (default: dropfolder.as, or the administrator)')
    .option('--mapping <file>', 'YAML file of how rows of .csv files become entries (default: dropfolder.mapping)')
    .option('--dry-run', 'print what the files in target would change, and change nothing')
    .option('--validate-first', 'try a whole file before its first record is applied, and apply none if one is refused')
    .option('--max-bytes <number>', 'refuse longer files (default: dropfolder.maxBytes)', parsePositive)
    .option('--lease <seconds>', 'take over files of a process that has been silent for this time', parsePositive, 60)
    .option('--poll <seconds>', 'look for files at least at this interval', parsePositive, 5)
    .action(async (argument: string | undefined, flags: DropFlags, command: Command) => {
      const settings = resolveSettings(command);
      const folder = argument ?? settings.config.dropfolder.folder;
      if (folder === undefined) throw new UsageError('no drop folder: give one, or set dropfolder.folder');
      try {
        await withDirectory(settings, {}, (directory) => runFolder(directory, settings, folder, flags));
      } catch (error) {
        if (error instanceof DropError) throw new CliError(error.message, { cause: error });
        throw error;
      }
    });
}
