import type { Command } from 'commander';
import type { Modification } from '../../ldap/ldap-types.js';
import { newTotpSecret, totpUri } from '../../password/index.js';
import { SecondFactor, TOTP_SECRET } from '../../server/passwords/second-factor.js';
import { CliError } from '../exit.js';
import { commandGroup } from '../options.js';
import { accountCommands, modify } from './account-command.js';

const EXAMPLES = `
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

export function addAccountTotp(account: Command): void {
  const totp = commandGroup(account, 'totp', 'make and remove second factors: six-digit codes (RFC 6238)', EXAMPLES);
  const addCommand = accountCommands(totp, EXAMPLES);

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
