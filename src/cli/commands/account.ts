import type { Command } from 'commander';
import type { Modification } from '../../ldap/ldap-types.js';
import { LOCKED_PERMANENTLY } from '../../partition/model/account-state.js';
import { generalizedTime } from '../../partition/model/csn.js';
import type { Dn } from '../../schema/schema-types.js';
import { isLockedOut } from '../../server/passwords/account-status.js';
import { CliError } from '../exit.js';
import type { OpenDirectory } from '../open-directory.js';
import { commandGroup } from '../options.js';
import { accountCommands, modify } from './account-command.js';
import { addAccountList } from './account-list.js';
import { addAccountPassword } from './account-password.js';
import { type Account, formatAccount } from './account-report.js';
import { addAccountTotp } from './account-totp.js';

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
