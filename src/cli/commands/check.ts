import type { Command } from 'commander';
import { LdapError } from '../../ldap/ldap-error.js';
import { type Dangling, type Partition, uuidText } from '../../partition/index.js';
import type { Breach } from '../../partition/model/directory-types.js';
import {
  costOf,
  DEFAULT_ARGON2_COST,
  describeKind,
  failureCost,
  isAffordable,
  isVerifiable,
  type PasswordPolicy,
  policyCost,
  untriedValues,
} from '../../password/index.js';
import { hashPolicyOf } from '../../server/passwords/hash-policy.js';
import { printable } from '../../server/words/printable.js';
import { findPageDamage, RESTORE_REMEDY, requireUndamagedPages } from '../damaged-pages.js';
import { ExitCode, formatNumber } from '../exit.js';
import { describeSecondPassword, withDirectory } from '../open-directory.js';
import { directoryCommand, resolveSettings, type Settings } from '../options.js';
import { Progress } from '../progress.js';

const CHECK_EXAMPLES = `
Examples:
  Look at everything; each breach is a line "invariant where: message", and the exit code is 1 when there is any:
    rowan check --data data

  Which values of member, manager and the like name an entry that is not there:
    rowan check --references --data data

  Beside a running server, at night, from cron:
    rowan check --data /var/lib/rowan || mail -s "rowan check" root < /dev/null
`;

const REPAIR_EXAMPLES = `
Examples:
  Restore the tree, the indexes and the counters from the entries themselves, then make sure:
    rowan repair --data data && rowan check --data data

  Remove the values that name an entry which is not there, too:
    rowan repair --references --data data
`;

/** Returns notes about stored passwords. Notes are no breaches: the passwords were valid when they were stored. */
function passwordNotes(policy: PasswordPolicy, storedPasswords: readonly Buffer[]): string[] {
  const notes: string[] = [];
  const formatRatio = (cost: number): string => (cost / DEFAULT_ARGON2_COST).toFixed(1);
  for (const value of storedPasswords) {
    if (!isVerifiable(value))
      notes.push(`${describeKind(value)} cannot be verified here: nobody can bind with it; set another`);
  }
  for (const value of untriedValues(storedPasswords.filter(isVerifiable), policy)) {
    const costText = formatRatio(costOf(value));
    const limitText = isAffordable(value, policy) ? 'together with the others of its entry above' : 'above';
    notes.push(
      `a hash costs ${costText} times what a hash should, ${limitText} passwords.maxCost: nobody can bind with it; set another`,
    );
  }
  const [cost, usualCost] = [failureCost(storedPasswords, policy), policyCost(policy)];
  if (cost <= usualCost) return notes;
  const costNote = `a bind that fails costs ${formatRatio(cost)}, one that names nobody ${formatRatio(usualCost)}, which tells that the entry is there`;
  notes.push(`${costNote}; the next binds of its owner mend it, or a new password does`);
  return notes;
}

function printNotes(where: string, notes: readonly string[]): void {
  for (const note of notes) process.stdout.write(`note password ${where}: ${note}\n`);
}

/** Returns the DN of an entry, or its UUID where the entry cannot be read or has no place in the tree. */
async function nameOf(partition: Partition, id: Buffer): Promise<string> {
  const entry = await partition.readById(id).catch((error: unknown) => {
    if (error instanceof LdapError) return undefined;
    throw error;
  });
  return entry ? printable(entry.dn, entry.dn.length) : uuidText(id);
}

const HARMLESS = 'they are in nobody\'s way, and "rowan repair" frees them';

function printBreach(breach: Breach): void {
  process.stdout.write(`${breach.invariant} ${breach.where}: ${breach.message}\n`);
}

function printDanglingReference({ dn, attribute, value, follows }: Dangling): void {
  const remedy = follows ? '' : `; ${attribute} does not follow names, and repair leaves the value`;
  process.stdout.write(`note reference ${dn}: ${attribute} '${value}' names no entry${remedy}\n`);
}

export function addCheck(program: Command): void {
  directoryCommand(program, 'check', 'verify that tree, indexes and counters agree with the entries', CHECK_EXAMPLES)
    .option('--references', 'list references to entries that are not there, too')
    .action(async ({ references = false }: ReferenceOption, command: Command) => {
      process.exitCode = await check(resolveSettings(command), references);
    });
}

interface ReferenceOption {
  readonly references?: boolean;
}

/** Resolves with the exit code. */
async function check(settings: Settings, references: boolean): Promise<number> {
  const findings = await findPageDamage(settings, 'check');
  return findings.length > 0 ? printPageDamage(findings) : checkRows(settings, references);
}

/** Prints page damage. Nothing else is checked, since LMDB cannot be trusted to read damaged pages. */
function printPageDamage(findings: readonly string[]): number {
  for (const finding of findings) process.stdout.write(`structure ${finding}\n`);
  process.stdout.write(
    `breaches found: ${formatNumber(findings.length)}; the rows were not looked at: ${RESTORE_REMEDY}\n`,
  );
  return ExitCode.failure;
}

function checkRows(settings: Settings, references: boolean): Promise<number> {
  return withDirectory(settings, { readOnly: true, inOrder: true }, async (directory) => {
    const { partition } = directory;
    const progress = new Progress('check', 'rows');
    const policy = hashPolicyOf(settings.config);
    const onPasswords = async (id: Buffer, values: readonly Buffer[]): Promise<void> => {
      const notes = passwordNotes(policy, values);
      if (notes.length > 0) printNotes(await nameOf(partition, id), notes);
    };
    printNotes('of the administrator', passwordNotes(policy, [partition.settings.adminPassword]));
    const breachCount = await partition.check(printBreach, (done) => progress.update(done), onPasswords);
    progress.finish();
    if (references) {
      const count = await partition.danglingReferences(printDanglingReference);
      process.stdout.write(`references to entries that are not there: ${formatNumber(count)}\n`);
    }
    const deadCount = (await partition.store.countDeadLocks?.(false)) ?? 0;
    const deadText = `rows that front ends hold which died: ${formatNumber(deadCount)}`;
    if (deadCount > 0) process.stdout.write(`note locks: ${deadText}; ${HARMLESS}\n`);
    if (breachCount > 0) {
      process.stdout.write(`breaches found: ${formatNumber(breachCount)}\n`);
      return ExitCode.failure;
    }
    const secondPassword = await describeSecondPassword(directory);
    if (secondPassword) process.stdout.write(`note password of the administrator: ${secondPassword}\n`);
    const isReleased = await partition.store.releaseWrites?.();
    const releasedNote = isReleased ? ': what was damaged is not any more, and the directory is written to again' : '';
    process.stdout.write(`no breach found${releasedNote}\n`);
    return ExitCode.ok;
  });
}

export function addRepair(program: Command): void {
  directoryCommand(program, 'repair', 'restore tree, indexes and counters from the entries', REPAIR_EXAMPLES)
    .option('--references', 'remove references to entries that are not there, too')
    .action(({ references = false }: ReferenceOption, command: Command) =>
      repair(resolveSettings(command), references),
    );
}

async function repair(settings: Settings, references: boolean): Promise<void> {
  await requireUndamagedPages(settings, 'repair');
  await withDirectory(settings, { evenIfDamaged: true }, async ({ partition }) => {
    const progress = new Progress('repair', 'rows');
    let unrepairedCount = 0;
    const onBreach = (breach: Breach, isRepaired: boolean): void => {
      if (!isRepaired) unrepairedCount++;
      printBreach(breach);
    };
    const repairedCount = await partition.repair(onBreach, (done) => progress.update(done));
    progress.finish();
    if (references) {
      const removedCount = await partition.danglingReferences(printDanglingReference, true);
      process.stdout.write(`references removed: ${formatNumber(removedCount)}\n`);
    }
    const freedCount = (await partition.store.countDeadLocks?.(true)) ?? 0;
    if (freedCount > 0) process.stdout.write(`freed rows of front ends that died: ${formatNumber(freedCount)}\n`);
    if (repairedCount > 0) process.stdout.write(`repaired: ${formatNumber(repairedCount)}\n`);
    else if (unrepairedCount === 0) process.stdout.write('nothing to repair\n');
    if (unrepairedCount === 0) return;
    process.stdout.write(`not repaired: ${formatNumber(unrepairedCount)}, the last of the lines above\n`);
    process.exitCode = ExitCode.failure;
  });
}
