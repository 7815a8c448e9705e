import { type Command, InvalidArgumentError, Option } from 'commander';
import { isAtOrBelow } from '../../access/requester.js';
import { formatChange, type LdifChange } from '../../ldif/index.js';
import { ChangeReader, type NumberedChange, timeMs } from '../../partition/feed/change-reader.js';
import { type Partition, uuidText } from '../../partition/index.js';
import { changeLines, tellChange } from '../../server/virtual/changelog.js';
import { directoryAction, parseDnArgument } from '../open-directory.js';
import { directoryCommand } from '../options.js';

const EXAMPLES = `
Examples:
  The changes that are kept, as LDIF; those from number 1200 on, as JSON lines:
    rowan changes --data data
    rowan changes --data data --from 1200 --format json

  Changes below ou=people as they come, beside a server or without one; Ctrl-C ends:
    rowan changes --data data --follow --base ou=people,dc=example,dc=com

Values are those that the entries have now. Secrets and values over 64 KiB are left out.
`;

export type Format = 'ldif' | 'json';

interface ChangesOptions {
  readonly follow?: boolean;
  readonly base?: string;
  readonly format: Format;
  readonly from: number;
}

async function* changesOf(partition: Partition, { follow, from }: ChangesOptions): AsyncGenerator<NumberedChange> {
  let number = BigInt(from - 1);
  for await (const changes of new ChangeReader(partition.store, number).read()) {
    yield* changes;
    number = changes.at(-1)!.number;
  }
  if (!follow) return;
  // Keeps the process alive, which the timer of the feed does not.
  const timer = setInterval(() => undefined, 60_000);
  try {
    for await (const { changes } of partition.feed.follow({ number, csn: undefined })) yield* changes;
  } finally {
    clearInterval(timer);
  }
}

/** Formats a change record with what it did. `remarks`: comment lines. */
export function formatRecord(record: NumberedChange, changes: LdifChange[], remarks: string, format: Format): Buffer {
  const { number, op, id, dn, newDn, writerDn: by, csn, attributes } = record;
  const time = new Date(timeMs(record)).toISOString();
  if (format === 'ldif') {
    const head = `# change ${number}, ${time}, by ${JSON.stringify(by)}\n${remarks}`;
    const nothing = Buffer.from(`# ${op} ${JSON.stringify(dn.toString())}\n\n`);
    return Buffer.concat([Buffer.from(head), ...(changes.length > 0 ? changes.map(formatChange) : [nothing])]);
  }
  const names = { dn: dn.toString(), newDn: newDn?.toString(), by, attributes };
  const fields = { number: Number(number), time, op, entryUUID: uuidText(id), csn: String(csn), ...names };
  return Buffer.from(`${JSON.stringify({ ...fields, changes: changes.map(changeLines).join('') })}\n`);
}

export function parseNumber(text: string): number {
  if (!/^[1-9]\d{0,14}$/.test(text)) throw new InvalidArgumentError('is not the number of a change, from 1');
  return Number(text);
}

export function addChanges(program: Command): void {
  directoryCommand(program, 'changes', 'write the changes that are kept, and new ones as they come', EXAMPLES)
    .option('--follow', 'go on with changes as they come')
    .option('--base <dn>', 'only changes of this entry and those below it')
    .addOption(new Option('--format <format>', 'LDIF or JSON lines').choices(['ldif', 'json']).default('ldif'))
    .option('--from <number>', 'begin with the change of this number', parseNumber, 1)
    .action(
      directoryAction({ readOnly: true }, async ({ partition, schema }, options: ChangesOptions) => {
        const base = options.base === undefined ? undefined : parseDnArgument(schema, options.base);
        const isBelow = (dn: Buffer | undefined): boolean =>
          dn !== undefined && (base === undefined || isAtOrBelow(schema.parseDnBytes(dn), base));
        for await (const record of changesOf(partition, options)) {
          if (!isBelow(record.dn) && !isBelow(record.newDn)) continue;
          const { change, remarks } = await tellChange(partition, record);
          const text = formatRecord(record, [change], remarks, options.format);
          if (!process.stdout.write(text)) await new Promise((resolve) => process.stdout.once('drain', resolve));
        }
      }),
    );
}
