import type { Command } from 'commander';
import type { Target } from '../../partition/index.js';
import { hashPassword } from '../../password/index.js';
import type { Dn } from '../../schema/schema-types.js';
import { CredentialReader } from '../../server/passwords/credentials.js';
import { hashPolicyOf } from '../../server/passwords/hash-policy.js';
import { operationalChanges } from '../../server/passwords/operational-changes.js';
import type { Config } from '../../server/settings/index.js';
import { addSettingFlags } from '../config/index.js';
import { CliError } from '../exit.js';
import { type OpenDirectory, parseDnArgument, withDirectory } from '../open-directory.js';
import { directoryCommand, resolveSettings } from '../options.js';
import { canPrompt, generatePassword, promptNewPassword, readPasswordFile, readPasswordInput } from '../secrets.js';
import { readAccount } from './account-report.js';

const EXAMPLES = `
Examples:
  Set the administrator's password; it is asked for on a terminal:
    rowan passwd --data data

  Set a user's, from a script:
    printf '%s' "$NEW" | rowan passwd --data data uid=ada,ou=people,dc=example,dc=com
    rowan passwd --data data --password-file pw uid=ada,ou=people,dc=example,dc=com

  Make one up and show it:
    rowan passwd --data data --generate uid=ada,ou=people,dc=example,dc=com

A running server honours the new password at once.
`;

interface PasswdOptions {
  readonly passwordFile?: string;
  readonly generate?: boolean;
}

async function readNewPassword(options: PasswdOptions, dn: string): Promise<Buffer> {
  if (options.passwordFile !== undefined) return readPasswordFile(options.passwordFile);
  if (options.generate) return Buffer.from(generatePassword());
  return canPrompt() ? promptNewPassword(dn) : readPasswordInput();
}

async function setPassword(
  directory: OpenDirectory,
  dn: Dn,
  storedPassword: Buffer,
  passwords: Config['passwords'],
): Promise<unknown> {
  const { partition, schema } = directory;
  const { adminDn } = partition.settings;
  if (dn.norm.equals(schema.parseDn(adminDn).norm)) return partition.setAdminPassword(storedPassword);
  const { policy } = await readAccount(directory, dn, passwords);
  const credentials = new CredentialReader(partition.descriptions, passwords.shadow);
  const change = { isOwn: false, passwordsAfter: [storedPassword], setsPasswords: true, writesReset: false };
  const makeChanges = ({ row }: Target) => {
    return {
      clientChanges: [{ operation: 'replace', attribute: { type: 'userPassword', values: [storedPassword] } } as const],
      serverChanges: operationalChanges(policy, credentials.read(row), change, Date.now()),
    };
  };
  return partition.modify(dn, makeChanges, { dn: adminDn });
}

export function addPasswd(program: Command): void {
  const command = directoryCommand(program, 'passwd', "set the administrator's or an entry's password", EXAMPLES);
  addSettingFlags(command, ['passwords.policy', 'passwords.shadow'])
    .argument('[dn]', 'entry whose password is set (default: the administrator)')
    .option('--password-file <file>', 'file that holds the new password')
    .option('--generate', 'generate a password and show it')
    .action((dnText: string | undefined, options: PasswdOptions, command: Command) => {
      if (options.generate && options.passwordFile !== undefined) {
        throw new CliError('give either --generate or --password-file', { exitCode: 2 });
      }
      const settings = resolveSettings(command);
      return withDirectory(settings, {}, async (directory) => {
        const dn = parseDnArgument(directory.schema, dnText ?? directory.partition.settings.adminDn);
        const password = await readNewPassword(options, dn.text);
        const storedPassword = await hashPassword(password, hashPolicyOf(settings.config));
        await setPassword(directory, dn, storedPassword, settings.config.passwords);
        process.stdout.write(`password of ${dn.text} is set\n`);
        if (options.generate) process.stdout.write(`password: ${password.toString()}   (shown this once)\n`);
      });
    });
}
