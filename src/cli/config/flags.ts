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
  text: '<text>',
  paths: '<path>',
  urls: '<url>',
};

function collect(value: string, before: string[] | undefined): string[] {
  return [...(before ?? []), value];
}

function optionOf(name: SettingName): Option {
  const spec: SettingSpec = settings[name];
  const value = 'default' in spec ? formatValue(spec, spec.default) : '';
  const rest = [
    spec.kind === 'choice' ? spec.choices.join(', ') : '',
    value === '' ? '' : `default ${value}`,
    settingVariable(name),
  ];
  const notes = rest.filter((note) => note !== '').join('; ');
  const option = new Option(
    `${settingFlag(name)} ${PLACEHOLDERS[spec.kind]}`,
    `${spec.help.replaceAll('`', '')} (${notes})`,
  );
  return spec.kind === 'paths' || spec.kind === 'urls' ? option.argParser(collect) : option;
}

/**
 * Gives a command the flags of settings (all, unless `names` are given) and `--config`. Options of those names that the
 * command has already are left as they are and their values are still found by `flagValues`.
 */
export function addSettingFlags(command: Command, names: readonly SettingName[] = settingNames): Command {
  const have = new Set(command.options.map((option) => option.long));
  if (!have.has('--config')) command.option('--config <file>', 'YAML file with settings (ROWAN_CONFIG)');
  for (const name of names) if (!have.has(settingFlag(name))) command.addOption(optionOf(name));
  return command;
}

/** The settings that the command line gives, for `loadConfig`. */
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
