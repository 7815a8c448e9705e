import type { Command } from 'commander';
import { LdapError } from '../../ldap/ldap-error.js';
import type { PartialAttribute } from '../../ldap/ldap-types.js';
import { formatEntry, formatEntryChunks, VERSION_LINE } from '../../ldif/index.js';
import { largeQualifiers, type Partition } from '../../partition/index.js';
import type { LostEntry, SalvagedEntry } from '../../partition/upkeep/salvage.js';
import { addSettingFlags } from '../config/index.js';
import { requireUndamagedPages } from '../damaged-pages.js';
import { CliError, pluralize } from '../exit.js';
import { AccountStates } from '../export/account-states.js';
import { AttributeSelection, type ExportAttribute, readEntryAttributes } from '../export/entry-attributes.js';
import { LossReport } from '../export/losses.js';
import { OutputStream } from '../export/output.js';
import { walkAll, walkMatching } from '../export/walk.js';
import { parseFilterArgument, requireAttributes } from '../filter.js';
import { type OpenDirectory, parseDnArgument, withDirectory } from '../open-directory.js';
import { directoryCommand, resolveSettings } from '../options.js';
import { Progress } from '../progress.js';

const EXAMPLES = `
Examples:
  Everything, with entryUUIDs, times and password hashes, so that an import gives the same directory:
    rowan export --data data --output backup.ldif

  One branch, or what matches, without operational attributes:
    rowan export --data data --base ou=people,dc=example,dc=com --no-operational
    rowan export --data data --filter '(mail=*@example.com)' | gzip > mail.ldif.gz
`;

interface ExportOptions {
  readonly base?: string;
  readonly filter?: string;
  readonly output?: string;
  readonly operational: boolean;
  readonly evenIfDamaged?: boolean;
}

async function writeEntry(
  partition: Partition,
  salvagedEntry: SalvagedEntry,
  selection: AttributeSelection,
  states: AccountStates | undefined,
  output: OutputStream,
  losses: LossReport,
): Promise<void> {
  const entry = { ...salvagedEntry, row: partition.presentRow(salvagedEntry.row) };
  const largeReader = largeQualifiers(entry.row) && (await partition.openLarge(entry.id));
  try {
    const dn = entry.dn.toString();
    const lostAttributes: string[] = [];
    const onLost = (attribute: string): void => void lostAttributes.push(attribute);
    const storedAttributes = await readEntryAttributes(entry, selection, largeReader, onLost);
    const attributes = (await states?.withStates(entry, storedAttributes, onLost)) ?? storedAttributes;
    for (const attribute of lostAttributes) await losses.reportValue(entry, attribute);
    if (isInMemory(attributes)) await output.write(formatEntry(dn, attributes));
    else for await (const bytes of formatEntryChunks(dn, attributes)) await output.write(bytes);
  } finally {
    largeReader?.close();
  }
}

/** Whether every value is in memory as a whole. */
function isInMemory(attributes: readonly ExportAttribute[]): attributes is PartialAttribute[] {
  return attributes.every(({ values }) => values.every((value) => value instanceof Uint8Array));
}

async function exportEntries(
  directory: OpenDirectory,
  options: ExportOptions,
  defaultPolicy: string | undefined,
): Promise<{ count: number; losses: LossReport }> {
  const { partition, schema } = directory;
  const filter = options.filter === undefined ? undefined : parseFilterArgument(options.filter);
  if (filter) requireAttributes(filter, schema);
  const bases = options.base === undefined ? partition.suffixes : [parseDnArgument(schema, options.base)];
  const selection = new AttributeSelection(schema, options.operational);
  const states = options.operational ? new AccountStates(directory, defaultPolicy) : undefined;
  const output = new OutputStream(options.output);
  const progress = options.output === undefined ? undefined : new Progress('export', 'entries');
  let count = 0;
  const losses = new LossReport(output);
  const exportEntry = async (found: SalvagedEntry): Promise<void> => {
    await writeEntry(partition, found, selection, states, output, losses);
    count++;
    progress?.update(count);
  };
  const sink = { entry: exportEntry, lost: (lost: LostEntry) => losses.reportEntry(lost) };
  await output.write(VERSION_LINE);
  for (const base of bases) {
    const walk = filter ? walkMatching(partition, base, filter, sink) : walkAll(partition, base, sink);
    await walk.catch((error: unknown) => {
      // A suffix may have no entry yet.
      if (options.base !== undefined || !(error instanceof LdapError) || error.result !== 'noSuchObject') throw error;
    });
  }
  await losses.end();
  await output.end();
  progress?.finish();
  return { count, losses };
}

export function addExport(program: Command): void {
  const command = directoryCommand(program, 'export', 'write entries as LDIF, parents before children', EXAMPLES);
  addSettingFlags(command, ['passwords.policy'])
    .option('--base <dn>', 'only this entry and those below it')
    .option('--filter <filter>', 'only entries that match')
    .option('--output <file>', 'write to this file, which only its owner may read; it appears when it is complete')
    .option('--no-operational', 'leave out entryUUID, createTimestamp and the like')
    .option('--even-if-damaged', 'do not verify the pages of the data file first; export what can be read')
    .action(async (options: ExportOptions, command: Command) => {
      const settings = resolveSettings(command);
      if (!options.evenIfDamaged) await requireUndamagedPages(settings, 'export');
      await withDirectory(settings, { readOnly: true, inOrder: true }, async (directory) => {
        const { count, losses } = await exportEntries(directory, options, settings.config.passwords.policy);
        if (options.output !== undefined)
          process.stdout.write(`exported ${pluralize(count, 'entry', 'entries')} to ${options.output}\n`);
        if (losses.isPartial) throw new CliError(losses.summary);
      });
    });
}
