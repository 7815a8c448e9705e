import { type Command, Option } from 'commander';
import { formatChange, formatComment, type LdifChange, LEFT_OUT } from '../../ldif/index.js';
import type { NumberedChange } from '../../partition/feed/change-reader.js';
import { changesOf, differenceBetween, hiddenValues, lastIdOf } from '../../partition/history/entry-change.js';
import { FormerRows } from '../../partition/history/former-rows.js';
import { undoChanges } from '../../partition/history/undo.js';
import type { Partition } from '../../partition/index.js';
import { CliError, describeError, ExitCode, UsageError } from '../exit.js';
import { directoryAction, type OpenDirectory, parseDnArgument, withTrialDirectory } from '../open-directory.js';
import { directoryCommand } from '../options.js';
import { type Format, formatRecord, parseNumber } from './changes.js';
import { parseName } from './deleted.js';
import { parseTime } from './search.js';

const EXAMPLES = `
Examples:
  Who changed what of an entry, and when; also of one that is renamed or deleted:
    rowan history uid=ada,ou=people,dc=example,dc=com --data data
    rowan history 0190a3c2-5f0e-7b11-9c3f-2a4d5e6f7081 --since 2026-11-27T12:00Z --format json --data data

  What became of it since yesterday at noon, as LDIF; exit codes: 0 no difference, 1 a difference, 2 not compared:
    rowan diff uid=ada,ou=people,dc=example,dc=com --from 2026-11-27T12:00Z --data data

  What undoing two changes would do, and then undo them, the newer one first:
    rowan undo 1201 1207 --dry-run --data data
    rowan undo 1201 1207 --data data
`;

const NAME = 'DN, of the entry that has it, or had it last, or entryUUID';

async function idOf(partition: Partition, name: Buffer | string): Promise<Buffer> {
  if (typeof name !== 'string') return name;
  const dn = parseDnArgument(partition.schema, name);
  const id = (await partition.findRow(dn))?.id ?? (await lastIdOf(partition, dn));
  if (!id) throw new CliError(`no entry has the name '${name}', and no change of one is kept`);
  return id;
}

function remarksOf(hidden: Iterable<string>): string {
  return [...hidden].map((text) => `${LEFT_OUT}${text}\n`).join('');
}

type HistoryOptions = { readonly since?: number; readonly format: Format };
type DiffOptions = { readonly from: number; readonly to?: number };

async function writeHistory({ partition }: OpenDirectory, name: Buffer | string, options: HistoryOptions) {
  const id = await idOf(partition, name);
  const rows = await FormerRows.open(partition.store, options.since ?? Number.NEGATIVE_INFINITY, [id]);
  for await (const step of (await rows.stepsOf(id)).steps) {
    const isLost = !step.after && step.record.op !== 'delete';
    const remarks = remarksOf(isLost ? ['all values, purged'] : hiddenValues(partition, step));
    process.stdout.write(formatRecord(step.record, changesOf(partition, step), remarks, options.format));
  }
}

async function writeDifference({ partition }: OpenDirectory, name: Buffer | string, { from, to }: DiffOptions) {
  if (from > (to ?? from)) throw new UsageError("'--from' is later than '--to'");
  const id = await idOf(partition, name);
  const { changes, hidden } = await differenceBetween(partition, id, from, to ?? Date.now());
  process.stdout.write(Buffer.concat([Buffer.from(remarksOf(hidden)), ...changes.map(formatChange)]));
  if (changes.length + hidden.size > 0) process.exitCode = ExitCode.failure;
}

async function undo(directory: OpenDirectory, numbers: readonly bigint[], { dryRun }: { readonly dryRun?: boolean }) {
  const actor = { dn: directory.partition.settings.adminDn, system: true };
  const tell = ({ number }: NumberedChange, writes: readonly LdifChange[]): void =>
    void process.stdout.write(Buffer.concat([formatComment(`undoes change ${number}`), ...writes.map(formatChange)]));
  // What the directory refuses shows before anything is changed.
  await withTrialDirectory(directory, ({ partition }) =>
    undoChanges(partition, numbers, actor, dryRun ? tell : () => undefined),
  );
  if (!dryRun) await undoChanges(directory.partition, numbers, actor, tell);
}

export function addHistory(program: Command): void {
  directoryCommand(program, 'history', 'write who changed what of an entry, and when', EXAMPLES)
    .argument('<name>', NAME, parseName)
    .option('--since <time>', 'only changes after this time, such as 2026-11-27T12:00Z', parseTime)
    .addOption(new Option('--format <format>', 'LDIF or JSON lines').choices(['ldif', 'json']).default('ldif'))
    .action(directoryAction({ readOnly: true }, writeHistory));
}

export function addDiff(program: Command): void {
  const action = directoryAction({ readOnly: true }, writeDifference);
  directoryCommand(program, 'diff', 'write how an entry differs between two times, as LDIF', EXAMPLES)
    .argument('<name>', NAME, parseName)
    .requiredOption('--from <time>', 'the earlier time, such as 2026-11-27T12:00Z', parseTime)
    .option('--to <time>', 'the later time; now, if not given', parseTime)
    .action((name: Buffer | string, options: DiffOptions, command: Command) =>
      action(name, options, command).catch((error) => {
        throw new CliError(describeError(error), { exitCode: ExitCode.usage, cause: error });
      }),
    );
}

export function addUndo(program: Command): void {
  const parseNumbers = (text: string, numbers: bigint[] = []) => [...numbers, BigInt(parseNumber(text))];
  directoryCommand(program, 'undo', 'undo changes by their numbers', EXAMPLES)
    .argument('<change...>', 'numbers, as "rowan changes" and "rowan history" show them', parseNumbers)
    .option('--dry-run', 'change nothing; write as LDIF what would be done')
    .action(directoryAction({}, undo));
}
