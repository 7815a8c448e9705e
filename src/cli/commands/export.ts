import type { Command } from 'commander';
import { LdapError } from '../../ldap/error.js';
import type { PartialAttribute } from '../../ldap/types.js';
import { formatEntry, formatEntryPieces, VERSION_LINE } from '../../ldif/index.js';
import { largeQualifiers, type Partition } from '../../partition/index.js';
import type { Hit } from '../../partition/read/sink.js';
import { askedDn, type OpenDirectory, withDirectory } from '../directory.js';
import { counted } from '../exit.js';
import { type ExportAttribute, entryAttributes, Selection } from '../export/entry-attributes.js';
import { Output } from '../export/output.js';
import { walkAll, walkMatching } from '../export/walk.js';
import { readFilter, requireAttributes } from '../filter.js';
import { directoryCommand, settingsOf } from '../options.js';
import { startProgress } from '../progress.js';

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
}

async function writeEntry(partition: Partition, hit: Hit, selection: Selection, output: Output): Promise<void> {
  const large = largeQualifiers(hit.row) && (await partition.openLarge(hit.id));
  try {
    const dn = hit.dn.toString();
    const attributes = await entryAttributes(hit, selection, large);
    if (isWhole(attributes)) await output.write(formatEntry(dn, attributes));
    else for await (const bytes of formatEntryPieces(dn, attributes)) await output.write(bytes);
  } finally {
    large?.close();
  }
}

/** Whether no value comes in pieces. */
function isWhole(attributes: readonly ExportAttribute[]): attributes is PartialAttribute[] {
  return attributes.every(({ values }) => values.every((value) => value instanceof Uint8Array));
}

async function exportEntries({ partition, schema }: OpenDirectory, options: ExportOptions): Promise<number> {
  const filter = options.filter === undefined ? undefined : readFilter(options.filter);
  if (filter) requireAttributes(filter, schema);
  const bases = options.base === undefined ? partition.suffixes : [askedDn(schema, options.base)];
  const selection = new Selection(schema, options.operational);
  const output = new Output(options.output);
  const progress = options.output === undefined ? undefined : startProgress('export', 'entries');
  let count = 0;
  const visit = async (hit: Hit): Promise<void> => {
    await writeEntry(partition, hit, selection, output);
    count++;
    progress?.update(count);
  };
  await output.write(VERSION_LINE);
  for (const base of bases) {
    const walked = filter ? walkMatching(partition, base, filter, visit) : walkAll(partition, base, visit);
    await walked.catch((error: unknown) => {
      // A suffix may have no entry yet.
      if (options.base !== undefined || !(error instanceof LdapError) || error.result !== 'noSuchObject') throw error;
    });
  }
  await output.end();
  progress?.finish();
  return count;
}

export function addExport(program: Command): void {
  directoryCommand(program, 'export', 'write entries as LDIF, parents before children')
    .option('--base <dn>', 'only this entry and those below it')
    .option('--filter <filter>', 'only entries that match')
    .option('--output <file>', 'to a file that only its owner may read, instead of standard output')
    .option('--no-operational', 'leave out entryUUID, createTimestamp and the like')
    .addHelpText('after', EXAMPLES)
    .action((options: ExportOptions, command: Command) =>
      withDirectory(settingsOf(command), { readOnly: true, inOrder: true }, async (directory) => {
        const count = await exportEntries(directory, options);
        if (options.output !== undefined)
          process.stdout.write(`exported ${counted(count, 'entry', 'entries')} to ${options.output}\n`);
      }),
    );
}
