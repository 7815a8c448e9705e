import { realpathSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { didYouMean, printable } from '../../schema/suggest.js';
import {
  type AnyValue,
  formatValue,
  readValue,
  SettingFault,
  type SettingName,
  type SettingSpec,
  settingNames,
  settings,
} from '../../server/settings/index.js';
import { editConfigFile, type SettingEdit } from '../config/edit.js';
import { addSettingFlags, configFile, type LoadedConfig } from '../config/index.js';
import { formatConfig } from '../config/print.js';
import { ControlClient } from '../control-client.js';
import { CliError, describeError, UsageError } from '../exit.js';
import { addServerOptions, configSources, loadSettings } from '../options.js';
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

Values are written as in flags and variables. The servers that run on the directory read their settings anew.
`;

function requireName(name: string): SettingName {
  if (Object.hasOwn(settings, name)) return name as SettingName;
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

/** Returns what stands in the file. Sizes and times keep the unit of the command line. */
function yamlValue({ kind }: SettingSpec, text: string, value: AnyValue): unknown {
  const hasUnit = (kind === 'size' || kind === 'duration') && /[A-Za-z]/.test(text);
  return hasUnit ? text.trim() : value;
}

/** Edits the configuration file, has running servers reload, and prints what has changed. */
async function editAndReload(command: Command, edit: SettingEdit): Promise<void> {
  const file = configFile(configSources(command));
  if (file === undefined)
    throw new UsageError(
      'no configuration file to change: give --config <file>, or ROWAN_CONFIG. A server that was started with flags alone has its settings from them',
    );
  editConfigFile(file, edit, process.env);
  const clients = await ControlClient.findAll(loadSettings(command).config);
  if (clients.length === 0)
    process.stdout.write(`${file} is changed; no server was found that runs, the next one reads it at its start\n`);
  for (const client of clients) await reload(client, edit.name, file);
}

async function reload(client: ControlClient, name: SettingName, file: string): Promise<void> {
  let report: ReloadReport;
  try {
    const requester = `uid ${process.getuid?.() ?? '-'}, pid ${process.pid}`;
    report = JSON.parse(await client.request('POST', '/reload', requester)) as ReloadReport;
  } catch (error) {
    throw new CliError(`${file} is changed, but ${describeError(error)}`, { cause: error });
  }
  const server = `server (pid ${client.pid})`;
  if (report.problems.length > 0)
    throw new CliError(`${file} is changed, but the ${server} keeps its settings: ${report.problems.join('; ')}`);
  for (const { name: changedName, oldText, newText, effect } of report.changes) {
    const effectText = effect === 'restart' ? 'needs a restart' : `applied (${effect})`;
    process.stdout.write(`${changedName}: ${oldText} → ${newText}: ${effectText}, ${server}\n`);
  }
  if (!report.changes.some((change) => change.name === name))
    process.stdout.write(`${name}: ${noChangeReason(report, name, file)}, ${server}\n`);
}

function noChangeReason({ file: serverFile, overrides }: ReloadReport, name: SettingName, file: string): string {
  if (serverFile === undefined) return 'not applied: the server was started without a configuration file';
  if (serverFile !== realpathSync(file)) return `not applied: the server reads another file, ${serverFile}`;
  const override = overrides[name];
  if (override !== undefined) return `not applied: the server has it from ${override}, which goes before the file`;
  return 'the server has this value already';
}

function editCommand(parent: Command, name: string, description: string, examples = ''): Command {
  const command = parent.command(name).description(description).addHelpText('after', examples);
  return addSettingFlags(command, ['data', 'store', 'control.folder']);
}

export function addConfig(program: Command): void {
  const config = program.command('config').description('print the settings in force and where they come from');
  addServerOptions(config)
    .addHelpText('after', EXAMPLES)
    .action((_options: object, command: Command) => {
      process.stdout.write(formatConfig(loadSettings(command)));
    });
  addServerOptions(config.command('get').description('print the value of one setting'))
    .argument('<name>', 'name of the setting, such as limits.connections')
    .action((name: string, _options: object, command: Command) =>
      printSetting(requireName(name), loadSettings(command)),
    );
  editCommand(config, 'set', 'change a setting in the configuration file and in running servers', SET_EXAMPLES)
    .argument('<name>', 'name of the setting, such as limits.connections')
    .argument('<value>')
    .action((name: string, value: string, _options: object, command: Command) =>
      editAndReload(command, parseEdit(requireName(name), value)),
    );
  editCommand(config, 'unset', 'remove a setting from the configuration file, so that its default holds again')
    .argument('<name>', 'name of the setting, such as limits.connections')
    .action((name: string, _options: object, command: Command) => editAndReload(command, { name: requireName(name) }));
}

function printSetting(name: SettingName, { values }: LoadedConfig): void {
  process.stdout.write(`${formatValue(settings[name], values[name])}\n`);
}
