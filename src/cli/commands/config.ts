import { readFileSync, readlinkSync, realpathSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Command } from 'commander';
import { didYouMean, printable } from '../../schema/suggest.js';
import {
  type AnyValue,
  type Config,
  formatValue,
  readValue,
  SettingFault,
  type SettingName,
  type SettingSpec,
  settingNames,
  settings,
  settingValue,
} from '../../server/settings/index.js';
import { isOtherProcess, withUserPath } from '../atomic-file.js';
import { type EditedConfig, editConfig, replaceConfigFile, type SettingEdit } from '../config/edit.js';
import { addSettingFlags, ConfigError, configFile, type LoadedConfig } from '../config/index.js';
import { formatConfig } from '../config/load.js';
import { isSetting } from '../config/yaml-file.js';
import { ControlClient } from '../control-client.js';
import { CliError, describeError, UsageError } from '../exit.js';
import { configSources, loadSettings } from '../options.js';
import type { ReloadReport } from '../reload.js';

const EXAMPLES = `
Examples:
  What is in force, and where each setting comes from:
    rowan config --config /etc/rowan.yaml

  A file to begin with; it takes flags and ROWAN_ variables over, too:
    rowan config --listen ldap://0.0.0.0:389 --limits-connections 100 > rowan.yaml

  Changes one setting in the file, and in the server that runs:
    rowan config set --config /etc/rowan.yaml limits.connections 500

A flag goes before a variable, a variable before the file, the file before the default.
`;

const SET_EXAMPLES = `
Examples:
  rowan config set --config /etc/rowan.yaml log.level debug
  rowan config set --config /etc/rowan.yaml limits.idleSeconds '15 m'
  rowan config set --config /etc/rowan.yaml listen ldap://0.0.0.0,ldaps://0.0.0.0
  rowan config set --config /etc/rowan.yaml tls.cert server.crt tls.key server.key

Values are written as in flags and variables. The servers that run on the directory read their settings anew.
`;

function requireName(name: string): SettingName {
  if (isSetting(name)) return name;
  throw new UsageError(`${printable(name)} is not a setting${didYouMean(name, settingNames)}`);
}

function parseEdit(name: SettingName, text: string): SettingEdit {
  const spec: SettingSpec = settings[name];
  try {
    const value = readValue(spec, text, true, (path) => resolve(path));
    return { name, value, yamlValue: yamlValue(spec, text, value) };
  } catch (error) {
    if (error instanceof SettingFault) throw new UsageError(`${name} ${error.message}`);
    throw error;
  }
}

/** Parses names and values in turn. */
function parseEdits(words: readonly string[]): SettingEdit[] {
  if (words.length % 2 !== 0) throw new UsageError(`${printable(words.at(-1)!)} has no value; give NAME VALUE pairs`);
  return words.flatMap((word, i) => (i % 2 === 0 ? parseEdit(requireName(word), words[i + 1]!) : []));
}

/** Returns what stands in the file. Sizes and times keep the unit of the command line. */
function yamlValue({ kind }: SettingSpec, text: string, value: AnyValue): unknown {
  const hasUnit = (kind === 'size' || kind === 'duration') && /[A-Za-z]/.test(text);
  return hasUnit ? text.trim() : value;
}

/** Edits the configuration file, has running servers reload, and prints what has changed. */
async function editAndReload(command: Command, edits: readonly SettingEdit[]): Promise<void> {
  const file = configFile(configSources(command));
  if (file === undefined)
    throw new UsageError(
      'no configuration file to change: give --config <file>, or ROWAN_CONFIG. A server that was started with flags alone has its settings from them',
    );
  const twice = edits.find(({ name }, i) => edits.findIndex((edit) => edit.name === name) !== i);
  if (twice) throw new UsageError(`${twice.name} is given twice`);
  await withFileLock(file, async () => {
    const edited = edit(file, edits);
    if (command.getOptionValue('force') !== true)
      await requireFiles(edited, command.opts<Pick<Config, 'data' | 'store'>>());
    const clients = await ControlClient.findAll(findingConfig(command, edited));
    replaceConfigFile(file, edited.text);
    if (clients.length === 0)
      process.stdout.write(`${file} is changed; no server was found that runs, the next one reads it at its start\n`);
    const failures: string[] = [];
    for (const client of clients) failures.push(...(await reload(client, clients, edited)));
    if (failures.length > 0) throw new CliError(failures.join('\n'));
  });
}

function edit(file: string, edits: readonly SettingEdit[]): EditedConfig {
  try {
    return editConfig(file, edits, process.env);
  } catch (error) {
    if (!(error instanceof ConfigError && / needs tls\./.test(error.message))) throw error;
    const hint = 'settings that need each other are given together: rowan config set tls.cert <file> tls.key <file>';
    throw new UsageError(`${error.message}\n${hint}`, { cause: error });
  }
}

/** Throws `UsageError` when what a changed setting names cannot be used. A server that runs checks again. */
async function requireFiles({ file, edits, config }: EditedConfig, flags: Pick<Config, 'data' | 'store'>) {
  const names = edits.map(({ name }) => name);
  const place = { data: config.data ?? flags.data, store: config.store ?? flags.store };
  // Loaded on demand, so that "rowan config" starts faster.
  const { requireNamed } = await import('../doctor/named-files.js');
  await requireNamed({ config: { ...config, ...place }, file }, names).catch((error) => {
    const hint = 'nothing is changed (--force changes the file all the same)';
    throw new UsageError(`${describeError(error)}; ${hint}`, { cause: error });
  });
}

/** Returns the configuration that running servers are found by: that before the change, unless it has mistakes. */
function findingConfig(command: Command, { config }: EditedConfig): Config {
  try {
    return loadSettings(command).config;
  } catch (error) {
    if (error instanceof ConfigError) return config;
    throw error;
  }
}

async function requestReload(client: ControlClient): Promise<ReloadReport> {
  const requester = `uid ${process.getuid?.() ?? '-'}, pid ${process.pid}`;
  return JSON.parse(await client.request('POST', `/reload?by=${encodeURIComponent(requester)}`)) as ReloadReport;
}

/** Prints what the server has applied. Returns what the server has not applied. Puts a file back that is refused. */
async function reload(
  client: ControlClient,
  clients: readonly ControlClient[],
  { file, edits, text, oldText }: EditedConfig,
): Promise<readonly string[]> {
  let report: ReloadReport;
  try {
    report = await requestReload(client);
  } catch (error) {
    throw new CliError(`${file} is changed, but ${describeError(error)}`, { cause: error });
  }
  const server = `server (pid ${client.pid})`;
  const print = (text: string): void => void process.stdout.write(`${text}, ${server}\n`);
  if (report.problems.length > 0) {
    const problems = report.problems.join('; ');
    if (report.file !== realpathSync(file) || readFileSync(file, 'utf8') !== text)
      throw new CliError(`${file} is changed, but the ${server} keeps its settings: ${problems}`);
    replaceConfigFile(file, oldText);
    for (const informedClient of clients.slice(0, clients.indexOf(client))) await requestReload(informedClient);
    throw new CliError(`the ${server} refuses the change, ${file} is as it was before: ${problems}`);
  }
  const waits: SettingName[] = [];
  for (const { name, oldText, newText, effect } of report.changes) {
    if (effect !== 'restart') print(`${name}: ${oldText} → ${newText}: applied (${effect})`);
    else if (edits.some((edit) => edit.name === name)) print(`${name}: ${oldText} → ${newText}: needs a restart`);
    else waits.push(name);
  }
  const failures: string[] = [];
  for (const { name } of edits) {
    if (report.changes.some((reported) => reported.name === name)) continue;
    const reason = noChangeReason(report, name, file);
    if (reason === undefined) print(`${name}: the server has this value already`);
    else failures.push(`${file} is changed, but ${name} is not applied: the ${server} ${reason}`);
  }
  if (waits.length > 0) print(`a restart is also needed for ${waits.join(', ')}`);
  return failures;
}

/** Returns why a change had no effect; undefined: the server has the value already. */
function noChangeReason({ file: serverFile, overrides }: ReloadReport, name: SettingName, file: string) {
  if (serverFile === undefined) return 'was started without a configuration file';
  if (serverFile !== realpathSync(file)) return `reads another file, ${serverFile}`;
  const override = overrides[name];
  return override === undefined ? undefined : `has it from ${override}, which goes before the file`;
}

function editCommand(parent: Command, name: string, description: string, examples = ''): Command {
  const command = parent.command(name).description(description).addHelpText('after', examples);
  return addSettingFlags(command, ['data', 'store', 'control.folder']);
}

export function addConfig(program: Command): void {
  const config = program.command('config').description('print the settings in force and where they come from');
  addSettingFlags(config)
    .addHelpText('after', EXAMPLES)
    .action((_options: object, command: Command) => {
      process.stdout.write(formatConfig(loadSettings(command)));
    });
  addSettingFlags(
    config.command('get').description('print the value of one setting, as file, variables and flags give it'),
  )
    .argument('<name>', 'name of the setting, such as limits.connections')
    .action((name: string, _options: object, command: Command) =>
      printSetting(requireName(name), loadSettings(command)),
    );
  editCommand(config, 'set', 'change settings in the configuration file and in running servers', SET_EXAMPLES)
    .argument('<name>', 'name of the setting, such as limits.connections')
    .argument('<value>')
    .argument('[more...]', 'further names and values, all changed together')
    .option('--force', 'change the file even if a file or folder that the settings name is missing')
    .action((name: string, value: string, more: readonly string[], _options: object, command: Command) =>
      editAndReload(command, parseEdits([name, value, ...more])),
    );
  editCommand(config, 'unset', 'remove settings from the configuration file, so that their defaults hold again')
    .argument('<name...>', 'names of the settings, such as limits.connections')
    .option('--force', 'change the file even if the settings then name no data folder')
    .action((names: readonly string[], _options: object, command: Command) =>
      editAndReload(
        command,
        names.map((name) => ({ name: requireName(name) })),
      ),
    );
}

function printSetting(name: SettingName, { config }: LoadedConfig): void {
  process.stdout.write(`${formatValue(settings[name], settingValue(config, name))}\n`);
}

const MAX_WAIT_MS = 30_000;
const POLL_MS = 20;

/**
 * Does `work` while this process holds `FILE.lock`, a symbolic link to the process id of the holder: a link appears
 * together with its target. The lock of a dead process is taken over. Throws when the lock is not free in 30 s.
 */
async function withFileLock<T>(file: string, work: () => Promise<T>): Promise<T> {
  const path = `${realpathSync(file)}.lock`;
  const deadline = Date.now() + MAX_WAIT_MS;
  while (!tryLock(path, file)) {
    if (Date.now() > deadline)
      throw new CliError(`${file} is locked by process ${readHolder(path)}; remove ${path} if it is no rowan config`);
    await sleep(POLL_MS);
  }
  try {
    return await work();
  } finally {
    rmSync(path, { force: true });
  }
}

function tryLock(path: string, file: string): boolean {
  try {
    symlinkSync(String(process.pid), path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw withUserPath(error, file);
  }
  const holder = readHolder(path);
  if (holder !== undefined && !isOtherProcess(holder)) removeLock(path, holder);
  return false;
}

/** Removes the lock of a dead process. The lock of a process that was faster is put back. */
function removeLock(path: string, deadHolder: number): void {
  const asidePath = `${path}.${process.pid}`;
  try {
    renameSync(path, asidePath);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
    throw error;
  }
  if (readHolder(asidePath) === deadHolder) rmSync(asidePath);
  else renameSync(asidePath, path);
}

/** Returns the process id; undefined: there is no lock any more, or the path is no link. */
function readHolder(path: string): number | undefined {
  try {
    return Number(readlinkSync(path));
  } catch (error) {
    if (['ENOENT', 'EINVAL'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined;
    throw error;
  }
}
