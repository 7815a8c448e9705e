import { createHash } from 'node:crypto';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { LdapError, ResultCode } from '../../ldap/ldap-error.js';
import type { Scope } from '../../ldap/ldap-types.js';
import { formatLine } from '../../ldif/write.js';
import type { Partition } from '../../partition/index.js';
import { META_TABLE } from '../../partition/model/tables.js';
import { decodePagedResults, encodePagedResults } from '../../protocol/controls/paged-results.js';
import type { Response, Result } from '../../protocol/ldap-messages.js';
import { ControlOid } from '../../protocol/oids.js';
import { LdapClient, RefusedError } from '../../replica/ldap-client.js';
import type { Schema } from '../../schema/index.js';
import { isHBaseUrl } from '../../store/hbase/settings.js';
import { batchesOf } from '../../store/maybe.js';
import { EMPTY } from '../../store/row.js';
import { addSettingFlags } from '../config/index.js';
import { CliError, describeError, ExitCode, formatNumber, pluralize, UsageError } from '../exit.js';
import { OutputStream } from '../export/output.js';
import { ANY_ENTRY, search } from '../export/walk.js';
import { configuredSchema, openDirectory } from '../open-directory.js';
import { loadSettings, noSetting } from '../options.js';
import { readPasswordFile } from '../secrets.js';

const EXAMPLES = `
Examples:
  Two folders, with what only folders show; Rowan and slapd:
    rowan compare /backup/data /var/lib/rowan --full
    rowan compare ldaps://rowan.example.com ldaps://slapd.example.com --bind-dn cn=admin,dc=example,dc=com \\
      --password-file admin.password

Lines with - are of the first directory, lines with + of the second. Exit codes: 0 equal, 1 different, 2 not compared.
`;

/** Kept by servers for themselves, besides operational attributes that no client may modify. */
const OWN_ATTRIBUTES = [
  ...['pwdAccountLockedTime', 'authTimestamp', 'lastLoginTime', 'passwordRetryCount', 'retryCountResetTime'],
  ...['accountUnlockTime', 'passwordExpirationTime', 'passwordExpWarned', 'passwordHistory', 'numSubordinates'],
  ...['tombstoneNumSubordinates', 'nsUniqueId', 'entryId', 'parentId', 'dsEntryDN', 'entryUSN'],
];
/** Names of rows that only a folder shows, by table, or by how their keys in `meta` begin. */
const ROWS: Readonly<Record<string, string>> = {
  ...{ state: 'account states', deleted: 'deleted entries', changes: 'change records', shared: 'settings' },
  ...{
    access: 'versions of access rules',
    number: 'numbers given out',
    references: 'owed references',
    schema: 'schemas',
  },
};
const PAGE_ENTRIES = 500;
const MANAGE_DSA_IT = { oid: ControlOid.manageDsaIT, critical: false, value: undefined };

type CompareFlags = Partial<
  Readonly<Record<'base' | 'tlsCa', string>> &
    Readonly<Record<'full' | 'secrets', boolean>> &
    Readonly<Record<'ignore' | 'bindDn' | 'passwordFile', readonly string[]>>
>;

type PlainEntry = Pick<Extract<Response, { op: 'searchEntry' }>, 'dn' | 'attributes'>;
type Visitor = (entry: PlainEntry) => Promise<void> | void;

/** One of the two directories. */
interface Side {
  /** Undefined for a server. */
  readonly partition?: Partition;
  /** Visits the entries of a search, referrals among them; none if the base is missing. */
  visit(base: string, scope: Scope, visitor: Visitor): Promise<void>;
  close(): void | Promise<void>;
}

function folderSide(partition: Partition): Side {
  const visit: Side['visit'] = async (base, scope, visitor) => {
    partition.renewReads();
    const visitHit = async ({ id }: { readonly id: Buffer }): Promise<void> => {
      const entry = await partition.readById(Buffer.from(id), true);
      const attributes = entry?.attributes.map(({ description, values }) => ({ type: description, values })) ?? [];
      if (entry) await visitor({ dn: entry.dn, attributes });
    };
    try {
      await search(partition, partition.schema.parseDn(base), scope, ANY_ENTRY, visitHit);
    } catch (error) {
      // The schema may lack an attribute in a DN of the other side.
      if (!(error instanceof LdapError) || !['noSuchObject', 'invalidDNSyntax'].includes(error.result)) throw error;
    }
  };
  return { partition, visit, close: () => partition.close() };
}

function serverSide(client: LdapClient): Side {
  const visit: Side['visit'] = async (base, scope, visitor) => {
    const limits = { deref: 'never', sizeLimit: 0, timeLimit: 0, typesOnly: false } as const;
    const request = { op: 'search', base, scope, ...limits, filter: ANY_ENTRY, attributes: ['*', '+'] } as const;
    let cookie: Buffer = EMPTY;
    do {
      const page: PlainEntry[] = [];
      const value = encodePagedResults({ size: PAGE_ENTRIES, cookie });
      const paging = { oid: ControlOid.pagedResults, critical: scope !== 'base', value };
      const answer = await client.request(request, [MANAGE_DSA_IT, paging], async ({ response }) => {
        if (response.op === 'searchEntry') page.push(response);
      });
      const result = answer.response as Result & typeof answer.response;
      if (result.code === ResultCode.noSuchObject) return;
      if (result.code !== ResultCode.success) throw new RefusedError(result);
      for (const entry of page) await visitor(entry);
      const control = answer.controls?.find(({ oid }) => oid === ControlOid.pagedResults);
      cookie = control ? decodePagedResults(control.value).cookie : EMPTY;
    } while (cookie.length > 0);
  };
  return { visit, close: () => client.close() };
}

async function openSide(address: string, at: number, flags: CompareFlags, command: Command): Promise<Side> {
  if (!/^ldap[si]?:/i.test(address)) {
    const settings = { ...loadSettings(command), store: isHBaseUrl(address) ? address : resolve(address) };
    return folderSide((await openDirectory(settings, { readOnly: true, patient: true })).partition);
  }
  const bindDn = flags.bindDn?.[at] ?? flags.bindDn?.[0] ?? '';
  const file = flags.passwordFile?.[at] ?? flags.passwordFile?.[0];
  if ((bindDn === '') !== (file === undefined)) throw new UsageError('give --bind-dn and --password-file, or neither');
  if (file !== undefined && /^ldap:\/\/(?!localhost\b|127\.|\[::1\])/i.test(address))
    process.stderr.write(`rowan: warning: the password for ${address} is sent in the clear\n`);
  const password = file === undefined ? EMPTY : readPasswordFile(file);
  return serverSide(await LdapClient.connect({ url: address, bindDn, password, tlsCa: flags.tlsCa }));
}

/** Visits all entries that are compared. */
async function visitAll({ partition, visit }: Side, base: string | undefined, visitor: Visitor): Promise<void> {
  let suffixes = base === undefined ? partition?.suffixes.map(({ text }) => text) : [base];
  if (!suffixes)
    await visit('', 'base', ({ attributes }) => {
      suffixes = attributes.find(({ type }) => type.toLowerCase() === 'namingcontexts')?.values.map(String);
    });
  for (const suffix of suffixes ?? []) await visit(suffix, 'sub', visitor);
}

const hashOf = (bytes: Buffer | string): Buffer => createHash('sha256').update(bytes).digest();

/** Returns the DN and the compared values of an entry as LDIF lines, by attribute and hash of the normal form. */
type LinesOf = (entry: PlainEntry) => Map<string, string>;

function linesBy(schema: Schema, { ignore = [], full, secrets }: CompareFlags): LinesOf {
  const nameOf = (text: string): string => (schema.describe(text)?.type.name ?? text.split(';', 1)[0]!).toLowerCase();
  const ignored = new Set((full ? ignore : [...ignore, ...OWN_ATTRIBUTES]).map(nameOf));
  const dnRule = schema.attribute('entryDN')!.equality!;
  return ({ dn, attributes }) => {
    const dnBytes = Buffer.from(dn);
    const dnKey = `dn ${hashOf(dnRule.normalize(dnBytes) ?? dn.toLowerCase()).toString('hex')}`;
    const lines = new Map([[dnKey, formatLine('dn', dnBytes, false)]]);
    for (const { type: text, values } of attributes) {
      const { type, text: name = text.toLowerCase() } = schema.describe(text.replace(/;binary\b/i, '')) ?? {};
      const isOwn = !full && type?.operational && type.noUserModification && type.name !== 'entryUUID';
      if (isOwn || ignored.has(nameOf(text)) || (type?.secret && !secrets)) continue;
      for (const value of values) {
        const key = `${name} ${hashOf(type?.equality?.normalize(value) ?? value).toString('hex')}`;
        lines.set(key, formatLine(name, type?.secret ? Buffer.from('(a secret)') : value, false));
      }
    }
    return lines;
  };
}

/** Prints how the entries differ. Returns the number of entries, and of those that differ. Keeps a hash of each. */
async function compareEntries(
  first: Side,
  second: Side,
  base: string | undefined,
  linesOf: LinesOf,
): Promise<[number, number]> {
  const digestOf = (entry: PlainEntry): string =>
    hashOf([...linesOf(entry).keys()].sort().join()).toString('latin1', 0, 16);
  const digests = new Set<string>();
  const output = new OutputStream(undefined);
  let differing = 0;
  const read = async ({ visit }: Side, dn: string): Promise<Map<string, string>> => {
    let lines = new Map<string, string>();
    await visit(dn, 'base', (entry) => {
      lines = linesOf(entry);
    });
    return lines;
  };
  const tell = async (dn: string): Promise<void> => {
    const [before, after] = [await read(first, dn), await read(second, dn)];
    const removed = [...before].flatMap(([key, line]) => (after.has(key) ? [] : `- ${line}`));
    const added = [...after].flatMap(([key, line]) => (before.has(key) ? [] : `+ ${line}`));
    if (removed.length + added.length === 0) return;
    differing++;
    const head = before.size > 0 && after.size > 0 ? `  ${formatLine('dn', Buffer.from(dn), false)}` : '';
    await output.write(Buffer.from(`${head}${[...removed, ...added].join('')}\n`, 'latin1'));
  };
  await visitAll(first, base, (entry) => void digests.add(digestOf(entry)));
  const count = digests.size;
  await visitAll(second, base, async (entry) => {
    if (!digests.delete(digestOf(entry))) await tell(entry.dn);
  });
  // Those that the second directory has, too, are told already.
  const tellMissing: Visitor = async (entry) => {
    if (digests.has(digestOf(entry)) && (await read(second, entry.dn)).size === 0) await tell(entry.dn);
  };
  if (digests.size > 0) await visitAll(first, base, tellMissing);
  await output.end();
  if (count + differing === 0) throw new CliError('neither directory shows an entry; see --base and --bind-dn');
  return [count, differing];
}

/** Returns for each kind of rows how many there are, with the sum of their hashes. */
async function rowCounts({ store, schema }: Partition): Promise<Map<string, string>> {
  const sums = new Map<string, [count: number, sum: bigint]>();
  for (const { name } of await store.tables()) {
    const oid = /^index_(.*)/.exec(name)?.[1];
    for await (const { keys, rows } of batchesOf(store.scan(name, {}))) {
      for (const [i, key] of keys.entries()) {
        const row = name === META_TABLE.name ? key.toString('latin1').split(',', 1)[0]! : name;
        const kind = oid === undefined ? ROWS[row] : `index ${schema.attribute(oid)?.name ?? oid}`;
        if (kind === undefined) continue;
        const [count, sum] = sums.get(kind) ?? [0, 0n];
        const hash = hashOf(Buffer.concat([Buffer.from(`${key.length} `), key, rows[i] ?? EMPTY]));
        sums.set(kind, [count + 1, BigInt.asUintN(64, sum + hash.readBigUInt64BE())]);
      }
    }
  }
  return new Map([...sums].map(([kind, [count, sum]]) => [kind, `${formatNumber(count)} (${sum.toString(16)})`]));
}

async function compare(addresses: readonly string[], flags: CompareFlags, command: Command): Promise<void> {
  const sides: Side[] = [];
  try {
    for (const [at, address] of addresses.entries()) sides.push(await openSide(address, at, flags, command));
    const [first, second] = sides as [Side, Side];
    const [a, b] = [first.partition, second.partition];
    if (flags.full && !(a && b)) throw new UsageError('--full compares two folders');
    const schema = (a ?? b)?.schema ?? configuredSchema(loadSettings(command));
    const linesOf = linesBy(schema, { secrets: !!(a && b), ...flags });
    const [count, differing] = await compareEntries(first, second, flags.base, linesOf);
    const rows = flags.full ? [await rowCounts(a!), await rowCounts(b!)] : [];
    const kinds = [...new Set(rows.flatMap((counts) => [...counts.keys()]))];
    const others = kinds.filter((kind) => rows[0]!.get(kind) !== rows[1]!.get(kind));
    for (const kind of others)
      process.stdout.write(`${kind}: ${rows.map((counts) => counts.get(kind) ?? 'none').join(' and ')}\n`);
    const isEqual = differing + others.length === 0;
    if (!isEqual) process.exitCode = ExitCode.failure;
    const summary = [pluralize(isEqual ? count : differing, 'entry', 'entries'), ...others].join(', ');
    process.stdout.write(`${isEqual ? 'equal' : 'different'}: ${summary}\n`);
  } catch (error) {
    throw new CliError(describeError(error), { exitCode: ExitCode.usage, cause: error });
  } finally {
    for (const side of sides) await side.close();
  }
}

export function addCompare(program: Command): void {
  const command = program
    .command('compare')
    .description('compare two directories, entry by entry')
    .argument('<first>', 'folder, or hbase://, ldaps://, ldapi:// or ldap:// URL')
    .argument('<second>')
    .option('--base <dn>', 'only this entry and those below it')
    .option('--full', 'of two folders: attributes and rows that servers keep for themselves, too')
    .option('--ignore <attributes...>', 'leave out these attributes')
    .option('--secrets', 'compare secrets of servers, too')
    .option('--bind-dn <dns...>', 'DN to bind as; a second one is for the second directory')
    .option('--password-file <files...>', 'file with the password, or two files')
    .option('--tls-ca <file>', 'certificates that those of the servers are checked against')
    .on('option:tls-ca', noSetting)
    .addHelpText('after', EXAMPLES)
    .action((first, second, flags: CompareFlags, self: Command) => compare([first, second], { ...flags }, self));
  addSettingFlags(command, ['hbase.site', 'hbase.rest', 'schema.folders', 'schema.nis']);
}
