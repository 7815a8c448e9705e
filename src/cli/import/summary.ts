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
  const counts = outcome.passwords;
  if (counts.hashedCount > 0) {
    const passwords = pluralize(counts.hashedCount, 'password');
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
  if (counts.foreignCount > 0) {
    const passwords = pluralize(counts.foreignCount, 'password');
    process.stdout.write(
      `${passwords} cannot be verified here (${[...counts.foreignSchemes].join(', ')}): kept, but nobody can bind with them\n`,
    );
    for (const dn of counts.foreignEntryDns) process.stdout.write(`  ${printable(dn)}\n`);
    if (counts.foreignEntryDns.size < counts.foreignCount) process.stdout.write('  "rowan check" names all of them\n');
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
  if (!outcome.stoppedAt) for (const line of outcome.refusals.format()) process.stdout.write(`${line}\n`);
}
