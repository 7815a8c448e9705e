import type { Command } from 'commander';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Modification } from '../../ldap/ldap-types.js';
import { LOCKED_PERMANENTLY } from '../../partition/model/account-state.js';
import { generalizedTime } from '../../partition/model/csn.js';
import type { Hit } from '../../partition/read/sink.js';
import { newTotpSecret, type PasswordPolicy, totpUri, unverifiableReason } from '../../password/index.js';
import type { Dn } from '../../schema/schema-types.js';
import { expiryOf, isLockedOut } from '../../server/passwords/account-status.js';
import { hashPolicyOf } from '../../server/passwords/hash-policy.js';
import { mustChange } from '../../server/passwords/row-account.js';
import { SecondFactor, TOTP_SECRET } from '../../server/passwords/second-factor.js';
import type { Config } from '../../server/settings/index.js';
import { printable } from '../../server/words/printable.js';
import { addSettingFlags } from '../config/index.js';
import { CliError, pluralize, UsageError } from '../exit.js';
import { OutputStream } from '../export/output.js';
import { ANY_ENTRY, search } from '../export/walk.js';
import { type OpenDirectory, withDirectory } from '../open-directory.js';
import { commandGroup, directoryCommand, resolveSettings } from '../options.js';
import { accountCommands, addAccountPassword, modify } from './account-password.js';
import { type Account, AccountReader, formatAccount, formatLocks, formatTime } from './account-report.js';
import { parseDays } from './deleted.js';

const EXAMPLES = `
Examples:
  Whether anybody can bind as an entry, and what prevents it:
    rowan account show uid=ada,ou=people,dc=example,dc=com --data data

  Let nobody bind with the passwords of an entry; sessions that are open end before their next operation:
    rowan account lock uid=ada,ou=people,dc=example,dc=com --data data
    rowan account unlock uid=ada,ou=people,dc=example,dc=com --data data

  Have the password changed at the next bind, or let it expire now:
    rowan account must-change uid=ada,ou=people,dc=example,dc=com --data data
    rowan account expire uid=ada,ou=people,dc=example,dc=com --data data

An account is locked by pwdAccountLockedTime, by nsAccountLock or loginDisabled with the value TRUE, and under a
password policy by failed binds and by idleness. The policy that holds by default is the setting passwords.policy.
`;

function replaceValues(type: string, ...values: string[]): Modification {
  return { operation: 'replace', attribute: { type, values: values.map((value) => Buffer.from(value)) } };
}

export function addAccount(program: Command): void {
  const description = 'show and lock accounts, expire passwords, make application passwords and second factors';
  const account = commandGroup(program, 'account', description, EXAMPLES);
  const add = accountCommands(account, EXAMPLES);

  const show = async (_directory: OpenDirectory, _dn: Dn, account: Account) => formatAccount(account, Date.now());
  add('show <dn>', 'show whether an entry can be bound as', show, { readOnly: true });

  add('lock <dn>', 'let nobody bind as the entry', async (directory, dn, { locks }) => {
    if (locks.length > 0)
      return `${dn.text} is locked already, by ${locks.map(({ description }) => description).join(', ')}`;
    await modify(directory, dn, [replaceValues('pwdAccountLockedTime', LOCKED_PERMANENTLY)]);
    return `${dn.text} is locked`;
  });

  add('unlock <dn>', 'remove all locks of the entry', async (directory, dn, report) => {
    const { id, locks, credentials, policy, state } = report;
    const now = Date.now();
    const isLockedByBinds = state.lockedUntil > now || (policy && isLockedOut(policy, credentials.account, state, now));
    if (locks.length === 0 && !isLockedByBinds && state.failures.length === 0) return `${dn.text} is not locked`;
    if (locks.length > 0)
      await modify(
        directory,
        dn,
        locks.map(({ description }) => replaceValues(description)),
      );
    await directory.partition.clearAccountState(id);
    return `${dn.text} is unlocked`;
  });

  add('expire <dn>', 'let the password of the entry expire now', async (directory, dn, report) => {
    const { maxAge = 0, graceExpiry = 0 } = report.policy ?? {};
    if (maxAge === 0)
      throw new CliError(
        `the passwords of ${dn.text} do not expire: ${report.chosenPolicy ? `${report.chosenPolicy.dn} has no pwdMaxAge` : 'it has no password policy'}; "rowan account must-change" asks for a new one`,
      );
    // Sets the time of the last change so that grace logins, which may end some time after expiry, remain possible.
    const changedMs =
      graceExpiry > 0 ? Math.min(report.credentials.account?.changed ?? Date.now(), Date.now() - maxAge) : 0;
    await modify(directory, dn, [replaceValues('pwdChangedTime', generalizedTime(changedMs))], true);
    return `the password of ${dn.text} has expired`;
  });

  add('must-change <dn>', 'ask for another password at the next bind', async (directory, dn, { credentials }) => {
    if (credentials.account?.reset) return `the password of ${dn.text} has to be changed already`;
    await modify(directory, dn, [replaceValues('pwdReset', 'TRUE')]);
    return `the password of ${dn.text} has to be changed`;
  });

  addAccountList(account);
  addAccountPassword(account);
  addAccountTotp(account);
}

const TOTP_EXAMPLES = `
Examples:
  A key under which the secrets are stored, once, for all front ends:
    openssl rand 32 > totp.key && chmod 600 totp.key

  A second factor for an entry; the URI goes into a program for codes, and is shown once:
    rowan account totp enroll uid=ada,ou=people,dc=example,dc=com --passwords-totp-key totp.key --data data
    rowan account totp remove uid=ada,ou=people,dc=example,dc=com --data data

From then on a bind with the password is one with the code behind it, such as password123456. Application passwords
bind without a code.
`;

function replaceSecret(values: readonly Buffer[]): Modification {
  return { operation: 'replace', attribute: { type: TOTP_SECRET, values } };
}

interface EnrollOptions {
  readonly issuer: string;
  readonly replace?: boolean;
}

/** Enrolling does not depend on reading the stored secret, so errors are not logged. */
const NO_LOG = { error: () => undefined };

function addAccountTotp(account: Command): void {
  const totp = commandGroup(
    account,
    'totp',
    'make and remove second factors: six-digit codes (RFC 6238)',
    TOTP_EXAMPLES,
  );
  const addCommand = accountCommands(totp, TOTP_EXAMPLES);

  addCommand(
    'enroll <dn>',
    'make a second factor, and show it',
    async (directory, dn, { credentials }, { options, config }) => {
      const { issuer, replace: isReplacing } = options as unknown as EnrollOptions;
      if (credentials.totp && !isReplacing)
        throw new CliError(`${dn.text} has a second factor; --replace puts another in its place`);
      const secret = newTotpSecret();
      const sealedSecret = new SecondFactor(config.passwords.totpKey, NO_LOG).encryptSecret(secret);
      await modify(directory, dn, [replaceSecret([sealedSecret])], true);
      return `second factor of ${dn.text} is set\n${totpUri(secret, issuer, dn.text)}   (shown this once)`;
    },
    { settings: ['passwords.totpKey'] },
  )
    .option('--issuer <name>', 'issuer that the program for codes shows', 'Rowan')
    .option('--replace', 'replace the present second factor');

  addCommand('remove <dn>', 'remove the second factor of an entry', async (directory, dn, { credentials }) => {
    if (!credentials.totp) return `${dn.text} has no second factor`;
    await modify(directory, dn, [replaceSecret([])], true);
    return `the second factor of ${dn.text} is removed`;
  });
}

const LIST_EXAMPLES = `
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

function addAccountList(parent: Command): void {
  const command = directoryCommand(parent, 'list', 'list accounts that fit one of the options, and why', LIST_EXAMPLES);
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
