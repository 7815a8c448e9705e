import type { Command } from 'commander';
import type { Modification } from '../../ldap/ldap-types.js';
import type { Modifier } from '../../partition/model/directory-types.js';
import type { Dn } from '../../schema/schema-types.js';
import type { Config, SettingName } from '../../server/settings/index.js';
import { addSettingFlags } from '../config/index.js';
import { CliError } from '../exit.js';
import { type OpenDirectory, parseDnArgument, withDirectory } from '../open-directory.js';
import { directoryCommand, resolveSettings } from '../options.js';
import { readAccount } from './account-report.js';

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
