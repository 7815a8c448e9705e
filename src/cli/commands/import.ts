import { createHash } from 'node:crypto';
import { join, resolve } from 'node:path';
import type { Command } from 'commander';
import type { PasswordPolicy } from '../../password/index.js';
import { hashPolicyOf } from '../../server/passwords/hash-policy.js';
import { printable } from '../../server/words/printable.js';
import { isHBaseUrl } from '../../store/hbase/settings.js';
import { CliError, formatNumber, pluralize } from '../exit.js';
import { Importer, type ImportOutcome } from '../import/importer.js';
import { ImportJournal } from '../import/journal.js';
import { checkRejectsPath, locateReason, RejectsFile } from '../import/rejects.js';
import { type InputFile, openInput, RecordSource } from '../import/source.js';
import { onInterruption } from '../last-resort.js';
import { describeSecondPassword, type OpenDirectory, withDirectory, withTrialDirectory } from '../open-directory.js';
import { directoryCommand, resolveSettings } from '../options.js';
import { Progress } from '../progress.js';

const EXAMPLES = `
Examples:
  Load a file; it ends at the first record that is refused, and what comes before stays:
    rowan import --data data people.ldif

  Refused records are in people.ldif.rejects with line and reason; correct that file, import it, then go on:
    rowan import --data data people.ldif.rejects
    rowan import --data data --resume people.ldif

  Load all that is not refused at once:
    rowan import --data data --continue people.ldif

  Check a file first, beside a running server; nothing is written:
    rowan import --data data --dry-run people.ldif

  From a program, beside a running server:
    zcat backup.ldif.gz | rowan import --data data -

Content records (entries) and change records (changetype: add, delete, modify, modrdn) may be mixed. Passwords in the
clear are stored as {SSHA512}, those that begin with {SCHEME} as they are. When an import was killed, the same command takes it up where it ended.
`;

interface ImportFlags {
  readonly continue?: boolean;
  readonly rejects?: string;
  readonly resume?: boolean;
  readonly allowUrls?: boolean;
  readonly dryRun?: boolean;
}

function rejectsPath(file: string, flags: ImportFlags): string {
  return flags.rejects ?? `${file === '-' ? 'stdin' : file}.rejects`;
}

/** Returns the journal path for a file: in the data folder, or beside the file for a directory in HBase. */
function journalPath(address: string, file: string): string {
  if (!isHBaseUrl(address)) return join(address, `import-${shortHash(resolve(file))}.json`);
  return `${file}.${shortHash(address)}.import`;
}

function shortHash(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 8);
}

/** Returns where an interrupted import continues. `--resume` without a journal starts at byte 0. */
function findResumePoint(journal: ImportJournal | undefined, flags: ImportFlags): { doneOffset: number } | undefined {
  if (flags.resume === false) return undefined;
  const progress = journal?.readProgress();
  const refusedLine = progress?.refusedLine;
  if (!progress || (refusedLine !== undefined && !flags.resume)) return flags.resume ? { doneOffset: 0 } : undefined;
  process.stderr.write(
    refusedLine === undefined
      ? 'import: an earlier import of this file was interrupted; going on with it\n'
      : `import: an earlier import of this file ended at line ${refusedLine}; going on behind that record\n`,
  );
  return { doneOffset: progress.done };
}

async function importFile(
  directory: OpenDirectory,
  policy: PasswordPolicy,
  input: InputFile,
  path: string,
  flags: ImportFlags,
): Promise<void> {
  const isDry = flags.dryRun === true;
  const journal = isDry
    ? undefined
    : input.fingerprint && new ImportJournal(journalPath(directory.address, path), input.fingerprint);
  const resume = findResumePoint(journal, flags);
  const rejects = isDry
    ? undefined
    : new RejectsFile(rejectsPath(path, flags), resume !== undefined && resume.doneOffset > 0);
  const source = new RecordSource(
    input.chunks,
    flags.allowUrls ? { allowUrls: (url) => url.protocol === 'file:' } : {},
  );
  await source.requireLdif(input.name);
  const progress = new Progress('import', 'entries');
  const size = input.fingerprint?.size;
  let recordCount = 0;
  const importer = new Importer(directory.partition, source, rejects, journal, {
    policy,
    continue: flags.continue === true || isDry,
    resume,
    onProgress: (count, phase, done) => {
      recordCount = count;
      progress.phase(phase === 'entries' ? 'import' : phase, phase === 'entries' ? phase : 'records');
      progress.update(count, size === undefined ? undefined : done / Math.max(1, size));
    },
  });
  const hadSecondPassword = (await describeSecondPassword(directory)) !== undefined;
  const startMs = performance.now();
  const removeHandlers = onInterruption(() => {
    progress.finish();
    if (isDry) return `interrupted after about ${pluralize(recordCount, 'record')}; nothing was written`;
    const command = flags.resume === false ? 'the same command without --no-resume' : 'the same command';
    const resumeText = journal ? `${command} goes on` : 'the same input with --resume goes on';
    return `interrupted after about ${pluralize(recordCount, 'record')}; ${resumeText}`;
  });
  const importRun = importer.run().then((outcome) => {
    if (size !== undefined && !outcome.fatalRefusal) progress.update(recordCount, 1);
    return outcome;
  });
  const outcome = await importRun.finally(() => {
    removeHandlers();
    progress.finish();
  });
  printOutcome(outcome, (performance.now() - startMs) / 1000, isDry);
  const secondPassword = hadSecondPassword ? undefined : await describeSecondPassword(directory);
  if (secondPassword) process.stdout.write(`passwords of the administrator: ${secondPassword}\n`);
  throwIfRejected(outcome, input, rejects);
}

/** Without `rejects`, in a dry run, every record is tried. */
function throwIfRejected(outcome: ImportOutcome, input: InputFile, rejects: RejectsFile | undefined): void {
  const { fatalRefusal, rejectedCount } = outcome;
  if (rejectedCount === 0) return;
  const recordsText = pluralize(rejectedCount, 'record');
  if (!rejects) throw new CliError(`${recordsText} would be refused`);
  const remedy = `correct ${rejects.path} and import it`;
  if (!fatalRefusal) throw new CliError(`${recordsText} refused; ${remedy}`);
  const reason = locateReason(fatalRefusal.line, fatalRefusal.reason.replace(/[\s.]+$/, ''));
  const furtherText = rejectedCount === 1 ? '' : `, and ${formatNumber(rejectedCount - 1)} behind it refused too`;
  throw new CliError(
    `${input.name}, ${reason}${reason.endsWith('?') ? '' : '.'} What comes before it is loaded${furtherText}; ${remedy}, then go on with --resume`,
  );
}

export function addImport(program: Command): void {
  directoryCommand(program, 'import', 'load LDIF: entries and changes', EXAMPLES)
    .argument('<file>', 'LDIF file, or - for standard input')
    .option('--continue', 'go on after records that are refused')
    .option('--rejects <file>', 'where refused records go (default: FILE.rejects)')
    .option('--resume', 'go on behind the record that ended the last import; existing entries count as loaded')
    .option('--no-resume', 'start from the beginning, although an import of this file was interrupted')
    .option('--dry-run', 'check everything and report what would be refused; write nothing')
    .option('--allow-urls', "read values of 'attribute:< file:///…' from the files named")
    .action((file: string, flags: ImportFlags, command: Command) => {
      const settings = resolveSettings(command);
      if (!flags.dryRun) checkRejectsPath(rejectsPath(file, flags), file);
      const input = openInput(file);
      const policy = hashPolicyOf(settings.config);
      const work = (directory: OpenDirectory) => importFile(directory, policy, input, file, flags);
      return withDirectory(settings, {}, (directory) =>
        flags.dryRun ? withTrialDirectory(directory, work) : work(directory),
      );
    });
}

/** Prints the result of an import on standard output. `seconds` is its duration. */
function printOutcome(outcome: ImportOutcome, seconds: number, isDry: boolean): void {
  const countTexts = [
    `${isDry ? 'dry run, nothing is written: ' : ''}loaded ${pluralize(outcome.loadedCount, 'entry', 'entries')}`,
  ];
  if (outcome.changeCount > 0) countTexts.push(`applied ${pluralize(outcome.changeCount, 'change')}`);
  if (outcome.existingCount > 0) countTexts.push(`${formatNumber(outcome.existingCount)} were there already`);
  if (outcome.rejectedCount > 0) countTexts.push(`refused ${formatNumber(outcome.rejectedCount)}`);
  const rateText = formatNumber((outcome.loadedCount + outcome.changeCount) / Math.max(seconds, 0.001));
  process.stdout.write(
    `${countTexts.join(', ')} in ${seconds.toFixed(1)} s (${rateText}/s), ${pluralize(outcome.byteCount, 'byte')} read\n`,
  );
  if (outcome.leftOutCount > 0) {
    const lines = pluralize(outcome.leftOutCount, 'line');
    process.stdout.write(
      `${lines} "# left out: …": secret and long values that an audit log lacks, so that their changes are not applied\n`,
    );
  }
  const counts = outcome.passwordCounts;
  if (counts.hashedCount > 0) {
    const passwords = pluralize(counts.hashedCount, 'password');
    process.stdout.write(`${passwords} came in the clear, now stored as {SSHA512}\n`);
  }
  if (outcome.firstOmitted) {
    const attributes = pluralize(outcome.omittedCount, 'attribute');
    const { line, attribute } = outcome.firstOmitted;
    process.stdout.write(
      `${attributes} left out that are worked out when they are asked for, the first is ${attribute} of the entry at line ${line}\n`,
    );
  }
  if (outcome.stateCounts.firstAttribute) {
    const { omittedCount, strippedCount, firstAttribute } = outcome.stateCounts;
    process.stdout.write(
      `${pluralize(omittedCount, 'value')} left out that another server keeps as deleted, ${formatNumber(strippedCount)} taken without their state options, the first is ${firstAttribute.attribute} of the entry at line ${firstAttribute.line}\n`,
    );
  }
  if (counts.foreignCount > 0) {
    const passwords = pluralize(counts.foreignCount, 'password');
    process.stdout.write(
      `${passwords} cannot be verified here (${[...counts.foreignSchemes].join(', ')}): kept, but nobody can bind with them\n`,
    );
    for (const dn of counts.foreignEntryDns) process.stdout.write(`  ${printable(dn, dn.length)}\n`);
    if (counts.unlistedEntryCount > 0)
      process.stdout.write(`  and ${formatNumber(counts.unlistedEntryCount)} more; "rowan check" names all of them\n`);
  }
  if (counts.tooCostlyCount > 0) {
    const passwords = pluralize(counts.tooCostlyCount, 'password');
    process.stdout.write(
      `${passwords} left out that cost more to verify than passwords.maxCost allows, alone or with the others of their entry: their owners need new ones\n`,
    );
  }
  if (counts.lockedCount > 0) {
    const accounts = pluralize(counts.lockedCount, 'account is', 'accounts are');
    process.stdout.write(
      `${accounts} locked by what the file says (pwdAccountLockedTime, nsAccountLock, loginDisabled): nobody can bind as them; "rowan account unlock DN" unlocks one\n`,
    );
  }
  const texts = [...counts.accountStates]
    .sort()
    .map(([name, accounts]) => `${name} of ${pluralize(accounts, 'account')}`);
  if (texts.length > 0) process.stdout.write(`taken over: ${texts.join(', ')}\n`);
  if (!outcome.fatalRefusal) for (const line of outcome.refusals.format()) process.stdout.write(`${line}\n`);
}
