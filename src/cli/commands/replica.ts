import { existsSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { hashPassword } from '../../password/index.js';
import { Follower } from '../../replica/follower.js';
import { grant, readHistory, revoke } from '../../replica/history.js';
import { urlProblem } from '../../replica/ldap-client.js';
import { replicaDn, replicaName } from '../../replica/primary.js';
import { readReplicaState, writeReplicaState } from '../../replica/state-file.js';
import { hashPolicyOf } from '../../server/passwords/hash-policy.js';
import { isHBaseUrl } from '../../store/hbase/settings.js';
import { addSettingFlags } from '../config/index.js';
import { ControlClient, controlCommand } from '../control-client.js';
import { CliError, UsageError } from '../exit.js';
import { directoryAction, type OpenDirectory } from '../open-directory.js';
import { commandGroup, directoryCommand, resolveSettings } from '../options.js';
import { Progress } from '../progress.js';
import { replicaError } from '../replica-role.js';
import { generatePassword, readPasswordFile } from '../secrets.js';
import { openStore, requireEmptyFolder } from '../store.js';

const EXAMPLES = `
Examples:
  On the first machine, which has data and listens on ldaps://primary.example.com:
    rowan replica grant second --data data --password-file second.password

  On the second machine, with a copy of the password file:
    rowan replica init --data data --of ldaps://primary.example.com --name second --password-file second.password \\
      --tls-ca ca.pem
    rowan serve --data data --listen ldap://0.0.0.0

  On either one:
    rowan replica status --data data
`;

function checkName(name: string): string {
  const checked = replicaName(replicaDn(name));
  if (checked === undefined) throw new UsageError(`'${name}': a name has 1 to 63 letters, digits, '.', '_' and '-'`);
  return checked;
}

async function grantReplica(
  { partition }: OpenDirectory,
  name: string,
  { passwordFile }: { readonly passwordFile: string },
  command: Command,
): Promise<void> {
  const { config } = resolveSettings(command);
  const checkedName = checkName(name);
  if (!existsSync(passwordFile)) writeFileSync(passwordFile, `${generatePassword()}\n`, { mode: 0o600, flag: 'wx' });
  const hash = await hashPassword(readPasswordFile(passwordFile), hashPolicyOf(config));
  await grant(partition.store, checkedName, hash);
  process.stdout.write(`${checkedName} may follow this directory, with the password in ${passwordFile}\n`);
}

async function revokeReplica({ partition }: OpenDirectory, name: string): Promise<void> {
  if (!(await revoke(partition.store, checkName(name)))) {
    const names = [...(await readHistory(partition.store)).grants.keys()].join(', ');
    throw new CliError(
      `there is no replica ${name}; ${names === '' ? 'no replica was granted' : `there are ${names}`}`,
    );
  }
  process.stdout.write(`${name} may not follow this directory any more\n`);
}

interface InitFlags {
  readonly of: readonly string[];
  readonly name: string;
  readonly passwordFile: string;
  readonly tlsCa?: string;
}

/** Fills an empty folder with a copy of the primary. A folder with an unfinished copy goes on. */
async function initReplica({ of, name, passwordFile, tlsCa }: InitFlags, command: Command): Promise<void> {
  // The setting of this name is about clients of a server.
  command.setOptionValue('tlsCa', undefined);
  const settings = resolveSettings(command);
  const { store: folder, config } = settings;
  if (isHBaseUrl(folder)) throw new UsageError('a replica has a data folder; front ends of HBase need none');
  for (const url of of) {
    const problem = urlProblem(url);
    if (problem !== undefined) throw new UsageError(`--of ${problem}`);
  }
  readPasswordFile(passwordFile);
  const state = readReplicaState(folder);
  if (!state) requireEmptyFolder(folder);
  else if (!state.copy)
    throw new CliError(`${folder} is a replica with a complete copy already; "rowan serve" follows`);
  const store = await openStore(folder, config, { create: true, follows: true });
  const files = { passwordFile: resolve(passwordFile), ...(tlsCa !== undefined && { tlsCa: resolve(tlsCa) }) };
  writeReplicaState(folder, { of, name: checkName(name), ...files, copy: state?.copy ?? { start: '0' } });
  const progress = new Progress('replica init', 'rows');
  const follower = new Follower(store, folder);
  let rowCount = 0;
  follower.onRows = (count) => {
    rowCount += count;
    progress.update(rowCount);
  };
  follower.onChange = ({ problem }) => {
    if (problem !== undefined) process.stderr.write(`rowan: ${problem}; trying again\n`);
  };
  try {
    await follower.run(new AbortController().signal, true);
  } catch (error) {
    throw replicaError(error, follower);
  } finally {
    progress.finish();
    await store.close();
  }
  process.stdout.write(`${folder} has a copy of the directory; "rowan serve" serves and follows\n`);
}

async function printStatus(_flags: object, command: Command): Promise<void> {
  const client = await ControlClient.find(command);
  process.stdout.write(await client.request('GET', '/replication'));
}

export function addReplica(program: Command): void {
  const replica = commandGroup(program, 'replica', 'make, follow and show replicas of a directory', EXAMPLES);

  directoryCommand(replica, 'grant', 'let a replica follow this directory', EXAMPLES)
    .argument('<name>', 'name of the replica, such as its host name')
    .requiredOption('--password-file <file>', 'file with its password; written with a new one if there is none')
    .action((name: string, flags: { readonly passwordFile: string }, command: Command) =>
      directoryAction({}, (directory) => grantReplica(directory, name, flags, command))(command),
    );

  directoryCommand(replica, 'revoke', 'let a replica follow no longer', EXAMPLES)
    .argument('<name>')
    .action(directoryAction({}, revokeReplica));

  addSettingFlags(directoryCommand(replica, 'init', 'fill an empty folder with a copy of a primary', EXAMPLES), [])
    .requiredOption('--of <urls...>', 'ldaps:// or ldapi:// URLs of the primary, and of those that may become it')
    .option('--name <name>', 'name that the primary knows the replica by', hostname())
    .requiredOption('--password-file <file>', 'file with the password of the replica')
    .option('--tls-ca <file>', 'certificates that the certificate of the primary is checked against')
    .action(initReplica);

  controlCommand(replica, 'status', 'show who follows, and how far behind', EXAMPLES).action(printStatus);
}
