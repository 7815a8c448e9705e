import type { Command } from 'commander';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Hit } from '../../partition/read/sink.js';
import { type PasswordPolicy, unverifiableReason } from '../../password/index.js';
import { expiryOf } from '../../server/passwords/account-status.js';
import { hashPolicyOf } from '../../server/passwords/hash-policy.js';
import { mustChange } from '../../server/passwords/row-account.js';
import type { Config } from '../../server/settings/index.js';
import { printable } from '../../server/words/printable.js';
import { addSettingFlags } from '../config/index.js';
import { pluralize, UsageError } from '../exit.js';
import { OutputStream } from '../export/output.js';
import { ANY_ENTRY, search } from '../export/walk.js';
import { type OpenDirectory, withDirectory } from '../open-directory.js';
import { directoryCommand, resolveSettings } from '../options.js';
import { type Account, AccountReader, formatLocks, formatTime } from './account-report.js';
import { parseDays } from './deleted.js';

const EXAMPLES = `
Examples:
  Accounts that nobody can bind as, and those whose password has expired:
    rowan account list --locked --expired --data data
`;

type Flag = 'locked' | 'expired' | 'mustChange' | 'unverifiable';
/** The options. `inactive`: days. */
type Selection = { readonly [Option in Flag]?: true } & { readonly inactive?: number };

/** Returns why the account is selected; none: it is not. */
function reasonsFor(account: Account, selection: Selection, hashPolicy: PasswordPolicy, now: number): string[] {
  const { policy, state } = account;
  const { passwords, account: row } = account.credentials;
  const reasons = selection.locked ? formatLocks(account, now) : [];
  const expiry = row?.reset ? undefined : expiryOf(policy, row, state);
  if (selection.expired && expiry !== undefined && expiry <= now)
    reasons.push(`password expired ${formatTime(expiry)}`);
  if (selection.mustChange && mustChange(row, now)) reasons.push('the password has to be changed');
  const lastUse = Math.max(state.lastSuccess, state.since, row?.changed ?? 0);
  if (selection.inactive !== undefined && policy?.maxIdle && now - lastUse >= selection.inactive * 86_400_000)
    reasons.push(state.lastSuccess > 0 ? `last bind ${formatTime(state.lastSuccess)}` : 'no bind recorded');
  const unverifiable = selection.unverifiable ? unverifiableReason(passwords, hashPolicy) : undefined;
  if (unverifiable !== undefined) reasons.push(unverifiable);
  return reasons;
}

/** Number of accounts that are read at the same time. */
const BATCH = 128;

async function listAccounts(directory: OpenDirectory, config: Config, selection: Selection): Promise<void> {
  const { partition } = directory;
  const reader = new AccountReader(directory, config.passwords);
  const hashPolicy = hashPolicyOf(config);
  const output = new OutputStream(undefined);
  let unrecordedCount = 0;
  const batch: Parameters<AccountReader['read']>[] = [];
  const writeBatch = async (): Promise<void> => {
    for (const account of await Promise.all(batch.splice(0).map((one) => reader.read(...one)))) {
      if (!account.policy?.maxIdle) unrecordedCount++;
      const reasons = reasonsFor(account, selection, hashPolicy, Date.now());
      if (reasons.length > 0)
        await output.write(Buffer.from(`${printable(account.dn, account.dn.length)}: ${reasons.join(', ')}\n`));
    }
  };
  const visit = async ({ id, dn, row }: Hit): Promise<void> => {
    const credentials = reader.credentials.read(Buffer.from(row));
    if (credentials.passwords.length + credentials.applications.length === 0) return;
    batch.push([Buffer.from(id), dn.toString(), credentials]);
    if (batch.length === BATCH) await writeBatch();
  };
  for (const suffix of partition.suffixes)
    await search(partition, suffix, 'sub', ANY_ENTRY, visit).catch((error: unknown) => {
      // A suffix may have no entry yet.
      if (!(error instanceof LdapError) || error.result !== 'noSuchObject') throw error;
    });
  await writeBatch();
  await output.end();
  const unrecorded = `${pluralize(unrecordedCount, 'account')} under no policy with pwdMaxIdle, so binds are not recorded`;
  if (selection.inactive !== undefined && unrecordedCount > 0) process.stderr.write(`rowan: ${unrecorded}\n`);
}

export function addAccountList(parent: Command): void {
  const command = directoryCommand(parent, 'list', 'list accounts that fit one of the options, and why', EXAMPLES);
  addSettingFlags(command, ['passwords.policy', 'passwords.shadow', 'passwords.maxCost'])
    .option('--locked', 'nobody can bind as the entry now')
    .option('--expired', 'the password has expired')
    .option('--must-change', 'the password has to be changed')
    .option('--inactive <days>', 'no bind for so many days, under a policy with pwdMaxIdle', parseDays)
    .option('--unverifiable', 'no password of the entry can be verified here')
    .action(async (options: Selection, command: Command) => {
      const { locked, expired, mustChange, inactive, unverifiable } = options;
      if (!(locked || expired || mustChange || unverifiable || inactive !== undefined))
        throw new UsageError('give some of --locked, --expired, --must-change, --inactive <days>, --unverifiable');
      const settings = resolveSettings(command);
      await withDirectory(settings, { readOnly: true, inOrder: true }, (directory) =>
        listAccounts(directory, settings.config, options),
      );
    });
}
