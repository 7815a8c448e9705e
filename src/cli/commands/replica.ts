import { existsSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { hashPassword } from '../../password/index.js';
import { ask, candidates, connectTo, requireAccess, termOf } from '../../replica/asking.js';
import { Follower } from '../../replica/follower.js';
import { grant, readHistory, revoke } from '../../replica/history.js';
import { urlProblem } from '../../replica/ldap-client.js';
import { replicaDn, replicaName } from '../../replica/primary.js';
import { divergenceFrom, turnBack } from '../../replica/rejoin.js';
import { tableNames } from '../../replica/sender.js';
import { readReplicaState, readState, writeReplicaState } from '../../replica/state-file.js';
import { hashPolicyOf } from '../../server/passwords/hash-policy.js';
import type { Store } from '../../store/contract.js';
import { isHBaseUrl } from '../../store/hbase/settings.js';
import { addSettingFlags } from '../config/index.js';
import { ControlClient, controlCommand } from '../control-client.js';
import { CliError, pluralize, UsageError } from '../exit.js';
import { OutputStream } from '../export/output.js';
import { writeLostChanges } from '../lost-changes.js';
import {
  directoryAction,
  type OpenDirectory,
  openStore,
  requireEmptyFolder,
  withDirectory,
} from '../open-directory.js';
import { commandGroup, directoryCommand, noSetting, resolveSettings } from '../options.js';
import { Progress } from '../progress.js';
import { replicaError } from '../replica-role.js';
import { generatePassword, readPasswordFile } from '../secrets.js';

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

function checkUrl(url: string): string {
  const problem = urlProblem(url);
  if (problem !== undefined) throw new UsageError(`--of ${problem}`);
  return url;
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
  const isKnown = (await readHistory(partition.store)).grants.has(checkedName);
  await grant(partition.store, checkedName, hash);
  const others = isKnown ? '; an earlier password is not valid any more' : '';
  process.stdout.write(`${checkedName} may follow this directory, with the password in ${passwordFile}${others}\n`);
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
  const settings = resolveSettings(command);
  const { store: folder, config } = settings;
  if (isHBaseUrl(folder)) throw new UsageError('a replica has a data folder; front ends of HBase need none');
  of.forEach(checkUrl);
  readPasswordFile(passwordFile);
  const state = readReplicaState(folder);
  if (!state) requireEmptyFolder(folder);
  else if (!state.copy)
    throw new CliError(`${folder} is a replica with a complete copy already; "rowan serve" follows`);
  const files = { passwordFile: resolve(passwordFile), ...(tlsCa !== undefined && { tlsCa: resolve(tlsCa) }) };
  const access = { of, name: checkName(name), ...files };
  await requireAccess(of, access);
  const store = await openStore(folder, config, { create: true, anyRole: true });
  writeReplicaState(folder, { ...access, copy: state?.copy ?? { start: '0' } });
  await followUntilCopied(store, folder, 'replica init');
  process.stdout.write(`${folder} has a copy of the directory; "rowan serve" serves and follows\n`);
}

/** Follows the primary until the folder has all that the primary has, and closes the store. */
async function followUntilCopied(store: Store, folder: string, name: string): Promise<void> {
  const progress = new Progress(name, 'rows');
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
}

interface RejoinFlags extends Partial<InitFlags> {
  readonly ldif?: string;
  readonly dryRun?: boolean;
}

/** Makes a primary of an older term, or a diverged replica, follow the primary, and writes first what is dropped. */
async function rejoin({ ldif, dryRun, ...flags }: RejoinFlags, command: Command): Promise<void> {
  const settings = resolveSettings(command);
  const { store: folder, config } = settings;
  if ((await ControlClient.findAll(config)).length > 0) throw new CliError('stop the server of this folder first');
  if (ldif === undefined && !dryRun) throw new UsageError('give --ldif <file> for what is dropped, or --dry-run');
  const known = readState(folder);
  const of = flags.of ?? (known?.newer?.urls.length ? known.newer.urls : known?.of) ?? [];
  const passwordFile = flags.passwordFile ?? known?.passwordFile;
  if (of.length === 0 || !passwordFile)
    throw new UsageError('give --of <urls...> and --password-file <file>, of a replica that the new primary granted');
  const tlsCa = flags.tlsCa ?? known?.tlsCa;
  const name = checkName(flags.name ?? (known?.name || hostname()));
  const files = { passwordFile: resolve(passwordFile), ...(tlsCa !== undefined && { tlsCa: resolve(tlsCa) }) };
  const access = { of: of.map(checkUrl), name, ...files };
  await requireAccess(of, access);
  const [primary] = await candidates(access.of, access, []);
  if (primary?.state.role !== 'primary') throw new CliError(`none of ${of.join(' ')} is a primary and answers`);
  const divergence = await withDirectory(settings, { readOnly: true }, async ({ partition }) => {
    const { terms } = primary.state;
    if (termOf(primary.state) < ((await readHistory(partition.store)).terms.at(-1)?.term ?? 0))
      throw new CliError(`${primary.url} is of an older term than ${folder}: there, "rowan replica rejoin" helps`);
    const readEntry = async (position: bigint): Promise<string | undefined> =>
      (await ask(primary.url, access, { position, terms: [], ask: 'state' })).entry;
    const found = await divergenceFrom(partition.store, terms, readEntry);
    const comment = `what ${folder} had that ${primary.url} lacks: ${pluralize(found.changes.length, 'change')}`;
    if (!dryRun) await writeLostChanges(partition, found.changes, comment, new OutputStream(ldif));
    return found;
  });
  const count = pluralize(divergence.changes.length, 'change');
  if (dryRun) {
    process.stdout.write(`${folder} has ${count} that ${primary.url} lacks; nothing was written\n`);
    return;
  }
  // Whatever interrupts the next steps, the folder is copied anew then.
  writeReplicaState(folder, { ...access, copy: { start: '0' } });
  const store = await openStore(folder, config, { create: false, anyRole: true });
  const tables = new Set(await tableNames(store));
  const client = await connectTo(primary.url, access);
  try {
    // Rows of an index that was dropped here, or made anew on either side, are in no log.
    if (primary.state.tables.every((table) => tables.has(table))) {
      await turnBack(store, client, divergence);
      const start = String(divergence.from - 1n);
      writeReplicaState(folder, { ...access, copy: { start, until: start } });
    }
  } finally {
    client.close();
  }
  await followUntilCopied(store, folder, 'replica rejoin');
  process.stdout.write(`${folder} follows ${primary.url}; ${count} that it had alone are in ${ldif}\n`);
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
    .on('option:tls-ca', noSetting)
    .action(initReplica);

  addSettingFlags(directoryCommand(replica, 'rejoin', 'make a former primary follow its successor', EXAMPLES), [])
    .option('--of <urls...>', 'URLs of the new primary, and of those that may become it')
    .option('--name <name>', 'name that the new primary knows this server by')
    .option('--password-file <file>', 'file with the password of the replica')
    .option('--tls-ca <file>', 'certificates that the certificate of the new primary is checked against')
    .on('option:tls-ca', noSetting)
    .option('--ldif <file>', 'file for the changes that are dropped, secrets included; only its owner may read it')
    .option('--dry-run', 'only count these changes')
    .action(rejoin);

  controlCommand(replica, 'status', 'show who follows, and how far behind', EXAMPLES).action(printStatus);
}
