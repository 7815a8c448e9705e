import { printable } from '../../server/words/printable.js';
import { formatNumber, pluralize } from '../exit.js';
import type { ImportOutcome } from './importer.js';

/** Prints the result of an import on standard output. `seconds` is its duration. */
export function printOutcome(outcome: ImportOutcome, seconds: number, isDry: boolean): void {
  const parts = [
    `${isDry ? 'dry run, nothing is written: ' : ''}loaded ${pluralize(outcome.loaded, 'entry', 'entries')}`,
  ];
  if (outcome.changed > 0) parts.push(`applied ${pluralize(outcome.changed, 'change')}`);
  if (outcome.existingEntries > 0) parts.push(`${formatNumber(outcome.existingEntries)} were there already`);
  if (outcome.rejected > 0) parts.push(`refused ${formatNumber(outcome.rejected)}`);
  const speed = formatNumber((outcome.loaded + outcome.changed) / Math.max(seconds, 0.001));
  process.stdout.write(
    `${parts.join(', ')} in ${seconds.toFixed(1)} s (${speed}/s), ${pluralize(outcome.bytes, 'byte')} read\n`,
  );
  const { hashed, foreign, kinds, foreignEntries, tooCostly, locked, accountStates } = outcome.passwords;
  if (hashed > 0) {
    const passwords = pluralize(hashed, 'password');
    process.stdout.write(`${passwords} came in the clear, now stored as {SSHA512}\n`);
  }
  if (outcome.firstLeftOut) {
    const attributes = pluralize(outcome.leftOut, 'attribute');
    const { line, attribute } = outcome.firstLeftOut;
    process.stdout.write(
      `${attributes} left out that are worked out when they are asked for, the first is ${attribute} of the entry at line ${line}\n`,
    );
  }
  if (outcome.state.first) {
    const { deleted, stripped, first } = outcome.state;
    process.stdout.write(
      `${pluralize(deleted, 'value')} left out that another server keeps as deleted, ${formatNumber(stripped)} taken without their state options, the first is ${first.attribute} of the entry at line ${first.line}\n`,
    );
  }
  if (foreign > 0) {
    const passwords = pluralize(foreign, 'password');
    process.stdout.write(
      `${passwords} cannot be verified here (${[...kinds].join(', ')}): kept, but nobody can bind with them\n`,
    );
    for (const dn of foreignEntries) process.stdout.write(`  ${printable(dn)}\n`);
    if (foreignEntries.size < foreign) process.stdout.write('  "rowan check" names all of them\n');
  }
  if (tooCostly > 0) {
    const passwords = pluralize(tooCostly, 'password');
    process.stdout.write(
      `${passwords} left out that cost more to verify than passwords.maxCost allows, alone or with the others of their entry: their owners need new ones\n`,
    );
  }
  if (locked > 0) {
    const accounts = pluralize(locked, 'account is', 'accounts are');
    process.stdout.write(
      `${accounts} locked by what the file says (pwdAccountLockedTime, nsAccountLock, loginDisabled): nobody can bind as them; "rowan account unlock DN" unlocks one\n`,
    );
  }
  const told = [...accountStates].sort().map(([name, accounts]) => `${name} of ${pluralize(accounts, 'account')}`);
  if (told.length > 0) process.stdout.write(`taken over: ${told.join(', ')}\n`);
  if (!outcome.stoppedAt) for (const line of outcome.refusals.format()) process.stdout.write(`${line}\n`);
}
