import { type Command, Option } from 'commander';
import {
  formatValue,
  type SettingName,
  type SettingSpec,
  settingFlag,
  settingNames,
  settings,
  settingVariable,
} from '../../server/settings/index.js';
import type { FlagValues } from './load.js';

const PLACEHOLDERS: Readonly<Record<SettingSpec['kind'], string>> = {
  integer: '<number>',
  count: '<number|auto>',
  size: '<size>',
  duration: '<time>',
  boolean: '[true|false]',
  choice: '<word>',
  mode: '<octal>',
  schedule: '<cron>',
  path: '<path>',
  output: '<path|off>',
  text: '<text>',
  paths: '<path>',
  urls: '<url>',
};

const DIRECTORY_HEADING = 'Directory, HBase and schema options:';
const DIRECTORY_SETTING = /^(?:data|store|hbase\..*|schema\..*)$/;

export function collectValues(value: string, previousValues: readonly string[] | undefined): string[] {
  return [...(previousValues ?? []), value];
}

function makeOption(name: SettingName): Option {
  const spec: SettingSpec = settings[name];
  const value = 'default' in spec ? formatValue(spec, spec.default) : '';
  const notes = [
    spec.kind === 'choice' ? spec.choices.join(', ') : '',
    value === '' ? '' : `default ${value}`,
    settingVariable(name),
  ];
  const notesText = notes.filter((note) => note !== '').join('; ');
  const option = new Option(
    `${spec.alias === undefined ? '' : `--${spec.alias}, `}${settingFlag(name)} ${PLACEHOLDERS[spec.kind]}`,
    `${spec.help.replaceAll('`', '')} (${notesText})`,
  );
  if (DIRECTORY_SETTING.test(name)) option.helpGroup(DIRECTORY_HEADING);
  return spec.kind === 'paths' || spec.kind === 'urls' ? option.argParser(collectValues) : option;
}

/**
 * Adds `--config` and the flags of the settings `names` (default: all) to a command. Options that the command has
 * already are kept, and `flagValues` reads them too.
 */
export function addSettingFlags(command: Command, names: readonly SettingName[] = settingNames): Command {
  const existingFlags = new Set(command.options.map((option) => option.long));
  if (!existingFlags.has('--config'))
    command.addOption(
      new Option('--config <file>', 'YAML file with settings (ROWAN_CONFIG)').helpGroup(DIRECTORY_HEADING),
    );
  for (const name of names) if (!existingFlags.has(settingFlag(name))) command.addOption(makeOption(name));
  return command;
}

export function flagValues(command: Command): FlagValues {
  const values: Partial<Record<SettingName, string | boolean | readonly string[]>> = {};
  for (const name of settingNames) {
    const option = command.options.find(({ long }) => long === settingFlag(name));
    if (option === undefined) continue;
    const key = option.attributeName();
    if (command.getOptionValueSource(key) !== 'cli') continue;
    values[name] = command.getOptionValue(key) as string | boolean | readonly string[];
  }
  return values;
}
