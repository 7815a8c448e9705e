import type { Command } from 'commander';
import type { Modification } from '../../ldap/ldap-types.js';
import type { ChangesOf } from '../../partition/model/directory-types.js';
import type { Dn } from '../../schema/schema-types.js';
import type { Config, SettingName } from '../../server/settings/index.js';
import { addSettingFlags } from '../config/index.js';
import { CliError } from '../exit.js';
import { askedDn, type OpenDirectory, withDirectory } from '../open-directory.js';
import { directoryCommand, settingsOf } from '../options.js';
import { type Account, readAccount } from './account-report.js';

interface AccountCommandOptions {
  readonly readOnly?: boolean;
  /** Shown with `--help`. */
  readonly examples: string;
  /** Settings that it takes as flags beside the usual ones. */
  readonly settings?: readonly SettingName[];
}

/** What the command line gave beside the entry. */
interface Given {
  readonly options: Readonly<Record<string, unknown>>;
  readonly config: Config;
}

/** A command on an entry that is there; what the work resolves with is printed. */
export function onAccount(
  parent: Command,
  usage: string,
  summary: string,
  { readOnly = false, examples, settings: more = [] }: AccountCommandOptions,
  work: (directory: OpenDirectory, dn: Dn, account: Account, given: Given) => Promise<string>,
): Command {
  return addSettingFlags(directoryCommand(parent, usage, summary), ['passwords.policy', 'passwords.shadow', ...more])
    .addHelpText('after', examples)
    .action((named: string, options: Given['options'], command: Command) => {
      const settings = settingsOf(command);
      const { config } = settings;
      return withDirectory(settings, { readOnly }, async (directory) => {
        const dn = askedDn(directory.schema, named);
        if (dn.norm.equals(directory.schema.parseDn(directory.partition.settings.adminDn).norm))
          throw new CliError(`the administrator is above locks; "rowan passwd" sets the administrator's password`);
        const account = await readAccount(directory, dn, config.passwords);
        process.stdout.write(`${await work(directory, dn, account, { options, config })}\n`);
      });
    });
}

/** `system`: writes what the server keeps. */
export async function modify(
  { partition }: OpenDirectory,
  dn: Dn,
  changes: readonly Modification[] | ChangesOf,
  system = false,
): Promise<void> {
  await partition.modify(dn, changes, { dn: partition.settings.adminDn, system });
}
