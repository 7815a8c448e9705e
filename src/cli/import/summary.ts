import { printable } from '../../server/words/printable.js';
import { formatNumber, pluralize } from '../exit.js';
import type { ImportOutcome } from './importer.js';

/** Prints the result of an import on standard output. `seconds` is its duration. */
export function printOutcome(outcome: ImportOutcome, seconds: number, isDry: boolean): void {
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
