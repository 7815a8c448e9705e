import { createHash } from 'node:crypto';
import { join, resolve } from 'node:path';
import type { Command } from 'commander';
import type { PasswordPolicy } from '../../password/index.js';
import { hashPolicyOf } from '../../server/passwords/hash-policy.js';
import { isHBaseUrl } from '../../store/hbase/settings.js';
import { CliError, pluralize } from '../exit.js';
import { Importer, type ImportOutcome } from '../import/importer.js';
import { ImportJournal } from '../import/journal.js';
import { checkRejectsPath, RejectsFile } from '../import/rejects.js';
import { type InputFile, openInput, RecordSource } from '../import/source.js';
import { printOutcome } from '../import/summary.js';
import { onInterruption } from '../interruption.js';
import { type OpenDirectory, withDirectory, withTrialDirectory } from '../open-directory.js';
import { directoryCommand, resolveSettings } from '../options.js';
import { startProgress } from '../progress.js';

const EXAMPLES = `
Examples:
  Load a file; it ends at the first record that is refused, and what came before stays:
    rowan import --data data people.ldif

  Go on after faults; refused records go to people.ldif.rejects with line and reason:
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
  if (!progress) return flags.resume ? { doneOffset: 0 } : undefined;
  process.stderr.write('import: an earlier import of this file was interrupted; going on with it\n');
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
  const progress = startProgress('import', 'entries');
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
  throwIfRejected(outcome, input, rejects);
}

function throwIfRejected(outcome: ImportOutcome, input: InputFile, rejects: RejectsFile | undefined): void {
  const { fatalRefusal } = outcome;
  if (fatalRefusal && rejects) {
    const reason = fatalRefusal.reason.replace(/[\s.]+$/, '');
    throw new CliError(
      `${input.name}, record at line ${fatalRefusal.line}: ${reason}; what came before it is loaded and stays. The record is in ${rejects.path}; correct it and go on with --resume, or pass over such records with --continue`,
    );
  }
  if (outcome.rejectedCount === 0) return;
  const rejectsText = rejects ? `refused: see ${rejects.path}` : `would be refused`;
  throw new CliError(`${pluralize(outcome.rejectedCount, 'record')} ${rejectsText}`);
}

export function addImport(program: Command): void {
  directoryCommand(program, 'import', 'load LDIF: entries and changes', EXAMPLES)
    .argument('<file>', 'LDIF file, or - for standard input')
    .option('--continue', 'go on after records that are refused')
    .option('--rejects <file>', 'where refused records go (default: FILE.rejects)')
    .option('--resume', 'count existing entries as loaded, as after an interrupted import (automatic for files)')
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
