import { type Command, InvalidArgumentError } from 'commander';
import type { Modification } from '../../ldap/ldap-types.js';
import type { Target } from '../../partition/index.js';
import type { Modifier } from '../../partition/model/directory-types.js';
import type { Dn } from '../../schema/schema-types.js';
import {
  APPLICATION_PASSWORD,
  type ApplicationPassword,
  createApplicationPassword,
  parseApplicationPasswords,
  parseNetworks,
} from '../../server/passwords/application-password.js';
import { CredentialReader } from '../../server/passwords/credentials.js';
import type { Config, SettingName } from '../../server/settings/index.js';
import { readValue, SettingFault } from '../../server/settings/kinds.js';
import { addSettingFlags, collectValues } from '../config/index.js';
import { CliError } from '../exit.js';
import { type OpenDirectory, parseDnArgument, withDirectory } from '../open-directory.js';
import { commandGroup, directoryCommand, resolveSettings } from '../options.js';
import { formatTime, readAccount } from './account-report.js';

const EXAMPLES = `
Examples:
  A password for a mail program, good in the company's network for 90 days; it is shown once:
    rowan account password add uid=ada,ou=people,dc=example,dc=com --name imap \\
      --network 10.0.0.0/8 --expires 90d --data data

  Which there are, and when each was used; one of them is revoked:
    rowan account password list uid=ada,ou=people,dc=example,dc=com --data data
    rowan account password revoke uid=ada,ou=people,dc=example,dc=com --name imap --data data

An application password binds as its entry, without a second factor, and changes no password. When it is revoked, the
sessions that have bound with it end before their next operation.
`;

const LIFETIME = {
  kind: 'duration',
  unit: 'seconds',
  default: 0,
  min: 1,
  max: 100 * 366 * 86_400,
  help: '',
} as const;

/** Returns seconds. Requires a unit, since a bare number may be meant as days. */
function parseLifetime(text: string): number {
  if (/^\d+$/.test(text)) throw new InvalidArgumentError(`has no unit: ${text}d are days, ${text}h are hours`);
  try {
    return readValue(LIFETIME, text, true, (path) => path) as number;
  } catch (error) {
    if (error instanceof SettingFault) throw new InvalidArgumentError(error.message);
    throw error;
  }
}

/** Modifies the application passwords that the entry has at the time of the write. */
function modifyPasswords(
  directory: OpenDirectory,
  dn: Dn,
  makeChange: (present: readonly ApplicationPassword[]) => Modification,
): Promise<void> {
  const credentials = new CredentialReader(directory.partition.descriptions);
  const makeChanges = ({ row }: Target) => [makeChange(parseApplicationPasswords(credentials.read(row).applications))];
  return modify(directory, dn, makeChanges, true);
}

interface AddOptions {
  readonly name: string;
  readonly network?: readonly string[];
  readonly usedBy?: string;
  readonly expires?: number;
}

export function addAccountPassword(account: Command): void {
  const password = commandGroup(account, 'password', 'make, list and revoke application passwords', EXAMPLES);
  const addCommand = accountCommands(password, EXAMPLES);

  addCommand('add <dn>', 'make an application password, and show it', async (directory, dn, _account, { options }) => {
    const { name, network = [], usedBy, expires } = options as unknown as AddOptions;
    const now = Date.now();
    const limits = {
      name,
      networks: parseNetworks(network),
      usedBy: usedBy === undefined ? undefined : parseDnArgument(directory.schema, usedBy).text,
      expires: expires === undefined ? undefined : now + expires * 1000,
    };
    let clearText = '';
    await modifyPasswords(directory, dn, (present) => {
      const { value, clearPassword } = createApplicationPassword(limits, present, now);
      clearText = clearPassword;
      return { operation: 'add', attribute: { type: APPLICATION_PASSWORD, values: [value] } };
    });
    return `application password '${name}' of ${dn.text}: ${clearText}   (shown this once)`;
  })
    .requiredOption('--name <name>', 'name of the password; "revoke" needs it')
    .option('--network <network>', 'address or network of the clients; may be repeated', collectValues)
    .option('--used-by <dn>', 'valid only on a connection that was bound as this entry before')
    .option('--expires <time>', 'lifetime, such as 90d', parseLifetime);

  addCommand(
    'list <dn>',
    'list the application passwords of an entry',
    async (_directory, dn, { credentials, state }) => {
      const passwords = parseApplicationPasswords(credentials.applications);
      if (passwords.length === 0) return `${dn.text} has no application passwords`;
      return passwords.map((one) => describePassword(one, state.uses.find(({ id }) => id === one.id)?.time)).join('\n');
    },
    { readOnly: true },
  );

  addCommand(
    'revoke <dn>',
    'remove an application password; its sessions end',
    async (directory, dn, _account, { options }) => {
      const { name } = options as unknown as { readonly name: string };
      await modifyPasswords(directory, dn, (present) => {
        const password = present.find((other) => other.name === name);
        if (!password) throw new CliError(`${dn.text} has no application password '${name}'`);
        const values = [Buffer.from(password.value)];
        return { operation: 'delete', attribute: { type: APPLICATION_PASSWORD, values } };
      });
      return `application password '${name}' of ${dn.text} is revoked`;
    },
  )
    .alias('remove')
    .requiredOption('--name <name>', 'name of the password');
}

function describePassword(
  { name, created, expires, networks, usedBy }: ApplicationPassword,
  lastUse: number | undefined,
): string {
  const notes = [`made ${formatTime(created)}`];
  if (expires !== undefined) notes.push(`${expires > Date.now() ? 'expires' : 'expired'} ${formatTime(expires)}`);
  if (networks.length > 0) notes.push(`from ${networks.map(({ text }) => text).join(', ')}`);
  if (usedBy !== undefined) notes.push(`used by ${usedBy}`);
  notes.push(lastUse === undefined ? 'never used' : `last used ${formatTime(lastUse)}, or within an hour of it`);
  return `${name}: ${notes.join('; ')}`;
}

interface CommandInput {
  readonly options: Readonly<Record<string, unknown>>;
  readonly config: Config;
}

type ReadAccount = Awaited<ReturnType<typeof readAccount>>;
type AccountWork = (directory: OpenDirectory, dn: Dn, account: ReadAccount, input: CommandInput) => Promise<string>;

interface AccountCommandOptions {
  readonly readOnly?: boolean;
  /** Further settings that the command takes as flags. */
  readonly settings?: readonly SettingName[];
}

/** Returns a function that adds commands on an existing entry. The result of `work` is printed. */
export function accountCommands(parent: Command, examples: string) {
  return (
    usage: string,
    summary: string,
    work: AccountWork,
    { readOnly = false, settings: moreSettings = [] }: AccountCommandOptions = {},
  ): Command =>
    addSettingFlags(directoryCommand(parent, usage, summary, examples), [
      'passwords.policy',
      'passwords.shadow',
      ...moreSettings,
    ]).action((name: string, options: CommandInput['options'], command: Command) => {
      const settings = resolveSettings(command);
      const { config } = settings;
      return withDirectory(settings, { readOnly }, async (directory) => {
        const dn = parseDnArgument(directory.schema, name);
        if (dn.norm.equals(directory.schema.parseDn(directory.partition.settings.adminDn).norm))
          throw new CliError(`the administrator is above locks; "rowan passwd" sets the administrator's password`);
        const account = await readAccount(directory, dn, config.passwords);
        process.stdout.write(`${await work(directory, dn, account, { options, config })}\n`);
      });
    });
}

/** `isSystem` allows writing operational attributes. */
export async function modify(
  { partition }: OpenDirectory,
  dn: Dn,
  changes: readonly Modification[] | Modifier,
  isSystem = false,
): Promise<void> {
  await partition.modify(dn, changes, { dn: partition.settings.adminDn, system: isSystem });
}
