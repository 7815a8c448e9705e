import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Scope } from '../../ldap/ldap-types.js';
import { formatEntry, VERSION_LINE } from '../../ldif/index.js';
import { shownRow } from '../../partition/history/former-rows.js';
import type { FormerHit } from '../../partition/history/search-as-of.js';
import { UNLIMITED_SEARCH } from '../../partition/index.js';
import { generalizedTimeMs } from '../../schema/time.js';
import { pluralize } from '../exit.js';
import { AttributeSelection, readEntryAttributes } from '../export/entry-attributes.js';
import { OutputStream } from '../export/output.js';
import { parseFilterArgument, requireAttributes } from '../filter.js';
import { directoryAction, type OpenDirectory, parseDnArgument } from '../open-directory.js';
import { directoryCommand } from '../options.js';

const EXAMPLES = `
Examples:
  Who was in the department yesterday at noon:
    rowan search --data data --base ou=sales,dc=example,dc=com --as-of 2026-11-27T12:00Z '(objectClass=person)'

  The entry as it is, with entryUUID, times and authors:
    rowan search --data data --base uid=ada,ou=people,dc=example,dc=com --scope base --operational

Values are those of that time, as far back as change records and deleted entries are kept. Secrets and values over
64 KiB are left out.
`;

interface SearchOptions {
  readonly base?: string;
  readonly scope: Scope;
  readonly asOf?: number;
  readonly operational?: boolean;
}

/** Returns the milliseconds since 1970 of a time as ISO 8601 or GeneralizedTime. */
export function parseTime(text: string): number {
  const ms = generalizedTimeMs(Buffer.from(text)) ?? Date.parse(text);
  if (Number.isNaN(ms)) throw new InvalidArgumentError('is not a time such as 2026-11-27T12:00Z or 20261127120000Z');
  return ms;
}

async function searchEntries({ partition, schema }: OpenDirectory, text: string, options: SearchOptions) {
  const filter = parseFilterArgument(text);
  requireAttributes(filter, schema);
  const selection = new AttributeSelection(schema, options.operational ?? false);
  const output = new OutputStream(undefined);
  let count = 0;
  const onHit = async ({ id, row, dn }: FormerHit): Promise<void> => {
    const entry = { id, dn, row: shownRow(partition.descriptions, row) };
    const attributes = await readEntryAttributes(entry, selection, undefined, () => undefined);
    await output.write(formatEntry(dn.toString(), attributes as { type: string; values: Buffer[] }[]));
    count++;
  };
  await output.write(VERSION_LINE);
  const bases = options.base === undefined ? partition.suffixes : [parseDnArgument(schema, options.base)];
  for (const base of bases) {
    const params = { ...UNLIMITED_SEARCH, base, scope: options.scope, filter };
    if (options.asOf !== undefined) await partition.searchAsOf(params, options.asOf, onHit);
    else await partition.search(params, { entry: onHit, reference: () => undefined });
  }
  await output.end();
  process.stderr.write(`found ${pluralize(count, 'entry', 'entries')}\n`);
}

export function addSearch(program: Command): void {
  directoryCommand(program, 'search', 'find entries, as they are or as they were at a time', EXAMPLES)
    .argument('[filter]', 'LDAP filter (RFC 4515)', '(objectClass=*)')
    .option('--base <dn>', 'only this entry and those below it')
    .addOption(new Option('--scope <scope>', 'part of the tree').choices(['base', 'one', 'sub']).default('sub'))
    .option('--as-of <time>', 'as the directory was at this time, such as 2026-11-27T12:00Z', parseTime)
    .option('--operational', 'also entryUUID, createTimestamp and the like')
    .action(directoryAction({ readOnly: true }, searchEntries));
}
