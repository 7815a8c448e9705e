import { constants, statSync } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { dirname, isAbsolute } from 'node:path';
import { pino } from 'pino';
import { readMapping } from '../../dropfolder/csv-mapping.js';
import type { Schema } from '../../schema/index.js';
import { readTls } from '../../server/listen/tls-material.js';
import { isText } from '../../server/logs/line-file.js';
import { Quality } from '../../server/passwords/password-rules.js';
import { SecondFactor } from '../../server/passwords/second-factor.js';
import { type Config, type SettingName, settingNames, settingValue } from '../../server/settings/index.js';
import { openLmdbStore } from '../../store/lmdb/index.js';
import { CliError, describeError } from '../exit.js';
import { readToken } from '../http/http-listener.js';
import { configuredSchema, readHBaseSettings, schemaDifference } from '../open-directory.js';
import type { Settings } from '../options.js';
import { type Finding, fault, ok } from './finding.js';
import { checkPorts } from './ports.js';

/** The settings of `checkNamedFiles`. Other checks look at what the others name. */
const EXAMINED = [
  ...(['accessLog.output', 'auditLog.output', 'passwords.totpKey', 'passwords.breached'] as const),
  ...(['backup.folder', 'dropfolder.folder', 'dropfolder.mapping', 'control.folder'] as const),
];
const REMEDY = 'correct the setting, or make what it names and let the user of the server use it';
const silentLog = pino({ level: 'silent' });

/**
 * Throws when what a setting names cannot be used. With `schema`, that of the directory, it is asked in the server.
 * `file`: the configuration file.
 */
type Check = (config: Config, schema?: Schema, file?: string) => unknown;

const requirePasswordChecks: Check = (config) => new Quality(config, silentLog).requireUsable();
const requireSchema: Check = (config, schema) => {
  const difference = schema && schemaDifference(schema.source, config.schema);
  if (difference !== undefined) throw new CliError(`${difference}; "rowan schema set" gives the directory another`);
  if (!schema) configuredSchema({ config });
};
/** The user and the network of a command may differ from those of the server. */
const requireFreePorts: Check = async (config, schema) => {
  const finding = schema && (await checkPorts({ config, store: '' })).find(({ state }) => state === 'fault');
  if (finding) throw new CliError(`${finding.text}; ${finding.remedy}`);
};

const CHECKS: Readonly<Partial<Record<SettingName, Check>>> = {
  data: ({ data }, schema) => (schema ? requireStore(data!) : requireFolder(data!)),
  store: (config) => readHBaseSettings(config.store!, config),
  'hbase.site': (config) => readHBaseSettings(config.store ?? 'hbase://localhost', config),
  listen: requireFreePorts,
  'tls.cert': readTls,
  'tls.key': readTls,
  'tls.ca': readTls,
  'http.listen': requireFreePorts,
  'http.tokenFile': ({ http }) => readToken('', http.tokenFile),
  'control.folder': ({ control }) => requireFolder(control.folder!),
  'passwords.policy': ({ passwords }, schema) => schema?.parseDn(passwords.policy!),
  'passwords.breached': requirePasswordChecks,
  'passwords.check': requirePasswordChecks,
  'passwords.totpKey': ({ passwords }) => new SecondFactor(passwords.totpKey, silentLog),
  'backup.folder': ({ backup }) => requireFolder(backup.folder!),
  'dropfolder.folder': ({ dropfolder }) => requireFolder(dropfolder.folder!),
  'dropfolder.as': ({ dropfolder }, schema) => schema?.parseDn(dropfolder.as!),
  'dropfolder.mapping': ({ dropfolder }, schema) =>
    schema ? readMapping(dropfolder.mapping!, schema) : access(dropfolder.mapping!, constants.R_OK),
  'schema.folders': requireSchema,
  'schema.nis': requireSchema,
  'accessLog.output': (config, _schema, file) => {
    requireOwnFile(config, 'accessLog.output', file);
    return requireLogFile(config.accessLog.output);
  },
  'auditLog.output': (config, _schema, file) => requireAuditLog(config, file),
};

/** Throws an error that begins with the setting when what one of the settings names cannot be used. */
export async function requireNamed(
  { config, file }: Omit<Settings, 'store'>,
  names: readonly SettingName[],
  schema?: Schema,
): Promise<void> {
  if (!(config.data ?? config.store) && names.some((name) => name === 'data' || name === 'store'))
    throw new CliError('data: nothing else gives the data folder; set data or store, or give --data if a flag does');
  for (const name of names) {
    if (settingValue(config, name) === undefined) continue;
    try {
      await CHECKS[name]?.(config, schema, file);
    } catch (cause) {
      const text = describeError(cause);
      const isNamed = settingNames.some((setting) => text.startsWith(`${setting}: `));
      throw new CliError(isNamed ? text : `${name}: ${text}`, { cause });
    }
  }
}

/** Checks the logs, the files for passwords and the drop folder that the settings name. */
export async function checkNamedFiles(settings: Settings): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const name of EXAMINED)
    await requireNamed(settings, [name]).catch((error) => findings.push(fault(describeError(error), REMEDY)));
  return findings.length > 0 ? findings : [ok('the logs, files and folders of the settings can be used')];
}

/** Throws when a server must not start with these logs. It starts without an access log that it can write. */
export async function requireLogs({ config, file }: Settings): Promise<void> {
  requireOwnFile(config, 'accessLog.output', file);
  await requireAuditLog(config, file);
}

/** Throws when the audit log cannot be written: a server that is to record its changes does not start without. */
async function requireAuditLog(config: Config, file: string | undefined): Promise<void> {
  requireOwnFile(config, 'auditLog.output', file);
  const { output } = config.auditLog;
  await requireLogFile(output).catch((cause: Error) => {
    throw new CliError(`auditLog.output: ${output} cannot be written: ${describeError(cause)}`, { cause });
  });
}

/** Throws when the file of a log has another purpose, so that no line must be appended to it. */
function requireOwnFile(config: Config, name: SettingName, file: string | undefined): void {
  const output = settingValue(config, name) as string;
  if (!isAbsolute(output)) return;
  const isOutput = (path: unknown) => typeof path === 'string' && isSameFile(path, output);
  const other = settingNames.find((one) => one !== name && isOutput(settingValue(config, one)));
  let purpose = other && `the file of ${other}`;
  if (isOutput(file)) purpose = 'the configuration file';
  else if (config.data !== undefined && isSameFile(config.data, dirname(output))) purpose = 'in the data folder';
  else if (!isText(output)) purpose ??= 'no text, so no log';
  if (purpose) throw new CliError(`${name}: ${output}: is ${purpose}; choose another file`);
}

function isSameFile(path: string, other: string): boolean {
  const [a, b] = [path, other].map((one) => statSync(one, { throwIfNoEntry: false }));
  return path === other || (a !== undefined && a.ino === b?.ino && a.dev === b.dev);
}

/** Throws when the file cannot be appended to, or made. Makes nothing: the file belongs to the user of the server. */
async function requireLogFile(path: string): Promise<void> {
  if (path === 'off' || path === 'stderr') return;
  const stats = await stat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
    return undefined;
  });
  if (stats?.isDirectory()) throw new Error(`${path}: is a folder, not a file`);
  await access(stats ? path : dirname(path), constants.W_OK);
}

async function requireFolder(path: string): Promise<void> {
  if (!(await stat(path)).isDirectory()) throw new Error(`${path}: is not a folder`);
  await access(path, constants.W_OK);
}

async function requireStore(folder: string): Promise<void> {
  await requireFolder(folder);
  const store = await openLmdbStore(folder, { create: false, readOnly: true });
  await store.close();
}
