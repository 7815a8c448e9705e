import { type Command, Option } from 'commander';
import { DEFAULT_PRESET, PRESETS, type Preset } from '../../access/presets.js';
import { collectValues } from '../config/index.js';
import { UsageError } from '../exit.js';
import { createDirectory, requireEmptyFolder } from '../open-directory.js';
import { directoryCommand, resolveSettings } from '../options.js';
import { canPrompt, generatePassword, promptNewPassword, readPasswordFile, withoutLineEnd } from '../secrets.js';

const EXAMPLES = `
Examples:
  Create a directory; the administrator's password is asked for, or made up and shown when there is no terminal:
    rowan init --data /var/lib/rowan --suffix dc=example,dc=com --admin-dn cn=admin,dc=example,dc=com

  From a script, with a password that no process list shows:
    rowan init --data data --suffix dc=example,dc=com --admin-dn cn=admin,dc=example,dc=com --admin-password-file pw
    ROWAN_ADMIN_PASSWORD=… rowan init --data data --suffix o=a --suffix o=b --admin-dn cn=admin,o=a

  With other access rules than that users read all but secrets:
    rowan init --data data --suffix o=acme --admin-dn cn=admin,o=acme --access closed

  In HBase:
    rowan init --store hbase://master1:16000,master2:16000/acme --suffix o=acme --admin-dn cn=admin,o=acme
`;

interface InitOptions {
  readonly suffix: readonly string[];
  readonly adminDn: string;
  readonly adminPasswordFile?: string;
  readonly access: Preset;
}

export interface AdminPassword {
  readonly password: Buffer;
  /** Whether the password was generated here and must be shown to the user. */
  readonly isGenerated: boolean;
}

/** Reads the password from the file, `ROWAN_ADMIN_PASSWORD` or the terminal, or generates one, in this order. */
async function readAdminPassword(adminDn: string, file: string | undefined): Promise<AdminPassword> {
  if (file !== undefined) return { password: readPasswordFile(file), isGenerated: false };
  const variable = process.env.ROWAN_ADMIN_PASSWORD;
  if (variable !== undefined) {
    const password = withoutLineEnd(Buffer.from(variable));
    if (password.length === 0) throw new UsageError('ROWAN_ADMIN_PASSWORD is set but empty');
    return { password, isGenerated: false };
  }
  if (canPrompt()) return { password: await promptNewPassword(adminDn), isGenerated: false };
  return { password: Buffer.from(generatePassword()), isGenerated: true };
}

export function addInit(program: Command): void {
  directoryCommand(program, 'init', 'create a directory', EXAMPLES)
    .requiredOption('--suffix <dn>', 'DN below which entries will live (may be repeated)', collectValues)
    .requiredOption('--admin-dn <dn>', 'DN the administrator binds with; it needs no entry')
    .option('--admin-password-file <file>', "file that holds the administrator's password")
    .addOption(
      new Option('--access <name>', 'initial access rules').choices(Object.keys(PRESETS)).default(DEFAULT_PRESET),
    )
    .action(async (options: InitOptions, command: Command) => {
      const settings = resolveSettings(command);
      requireEmptyFolder(settings.store);
      const { suffix: suffixes, adminDn } = options;
      let adminPassword: AdminPassword | undefined;
      const askPassword = async (): Promise<Buffer> => {
        adminPassword = await readAdminPassword(adminDn, options.adminPasswordFile);
        return adminPassword.password;
      };
      await createDirectory(settings, { suffixes, adminDn, adminPassword: askPassword, access: options.access });
      process.stdout.write(`created ${settings.store} for ${suffixes.join(' and ')}\nadministrator: ${adminDn}\n`);
      if (adminPassword?.isGenerated)
        process.stdout.write(
          `password: ${adminPassword.password.toString()}   (shown this once; "rowan passwd" sets another)\n`,
        );
    });
}
