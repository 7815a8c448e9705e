import { basename, resolve } from 'node:path';
import { type Command, Option } from 'commander';
import { stringify } from 'yaml';
import { didYouMean } from '../../schema/suggest.js';
import {
  type AnyValue,
  type Config,
  conflicts,
  formatValue,
  makeConfig,
  readValue,
  SettingFault,
  type SettingName,
  type SettingSpec,
  type SettingValues,
  settingFlag,
  settingNames,
  settings,
  settingValue,
  settingVariable,
} from '../../server/settings/index.js';
import { CliError, ExitCode } from '../exit.js';
import { readConfigFile } from './yaml-file.js';

/** Flag values as parsed by Commander: a text, the texts of a repeated flag, or a boolean. */
export type FlagValues = Readonly<Partial<Record<SettingName, string | boolean | readonly string[]>>>;

export interface ConfigSources {
  /** YAML file. Default: the file named by `ROWAN_CONFIG`, if any. */
  readonly file?: string | undefined;
  /** Text to read in place of the contents of the file. */
  readonly text?: string;
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly flags?: FlagValues;
}

export interface LoadedConfig {
  readonly config: Config;
  readonly file: string | undefined;
  /** Origins by name: `default`, `rowan.yaml:12`, `ROWAN_LISTEN` or `--listen`. */
  readonly origins: ReadonlyMap<SettingName, string>;
  /** Messages for the user, such as variables that look like settings but are none. */
  readonly warnings: readonly string[];
}

/** The configuration has mistakes. `problems` lists all of them with their places. */
export class ConfigError extends CliError {
  override readonly name = 'ConfigError';
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(problems.join('\n'), { exitCode: ExitCode.usage });
    this.problems = problems;
  }
}

const NON_SETTING_VARIABLES = new Set([
  'ROWAN_CONFIG',
  'ROWAN_ADMIN_PASSWORD',
  'ROWAN_DEBUG',
  'ROWAN_SEED',
  'ROWAN_AUTO_WORKERS',
]);

class SettingsLoader {
  readonly values: Partial<Record<SettingName, AnyValue>> = {};
  readonly origins = new Map<SettingName, string>(settingNames.map((name) => [name, 'default']));
  readonly problems: string[] = [];
  readonly warnings: string[] = [];

  readFile(file: string, text: string | undefined): void {
    const fileSettings = readConfigFile(file, text);
    this.problems.push(...fileSettings.problems);
    for (const { name, value, line } of fileSettings.settings) this.#set(name, value, `${basename(file)}:${line}`);
  }

  readVariables(env: Readonly<Record<string, string | undefined>>): void {
    const namesByVariable = new Map(settingNames.map((name) => [settingVariable(name), name]));
    for (const [variable, text] of Object.entries(env)) {
      if (!variable.startsWith('ROWAN_') || NON_SETTING_VARIABLES.has(variable) || text === undefined) continue;
      const name = namesByVariable.get(variable);
      if (name) this.#readText(name, text, variable);
      else this.warnings.push(`${variable} is not a setting${didYouMean(variable, namesByVariable.keys())}`);
    }
  }

  readFlags(flags: FlagValues): void {
    for (const name of settingNames) {
      const value = flags[name];
      if (value !== undefined) this.#readText(name, value, settingFlag(name));
    }
  }

  #readText(name: SettingName, raw: string | boolean | readonly string[], origin: string): void {
    try {
      this.#set(
        name,
        readValue(settings[name], raw, true, (path) => resolve(path)),
        origin,
      );
    } catch (error) {
      if (!(error instanceof SettingFault)) throw error;
      this.problems.push(`${origin} ${error.message}`);
    }
  }

  #set(name: SettingName, value: AnyValue, origin: string): void {
    this.values[name] = value;
    this.origins.set(name, origin);
  }
}

/** Returns `name` with the place where it was set, if any. */
function describePlace(name: SettingName, origin: string | undefined): string {
  if (origin === undefined || origin === 'default') return name;
  return /:\d+$/.test(origin) ? `${origin}: ${name}` : origin;
}

/** Returns the configuration file; undefined: there is none. */
export function configFile({ file, env }: ConfigSources): string | undefined {
  return (file ?? env?.ROWAN_CONFIG) || undefined;
}

/**
 * Loads the settings. Flags override variables, variables override the file, the file overrides the defaults. Throws
 * `ConfigError` with every mistake found, or a system error when the file cannot be read.
 */
export function loadConfig(sources: ConfigSources = {}): LoadedConfig {
  const { text, env = {}, flags = {} } = sources;
  const loader = new SettingsLoader();
  const file = configFile(sources);
  if (file !== undefined) loader.readFile(file, text);
  loader.readVariables(env);
  loader.readFlags(flags);
  const { origins, problems, warnings } = loader;
  const config = makeConfig(loader.values as Partial<SettingValues>);
  if (problems.length === 0) {
    for (const { name, message } of conflicts(config))
      problems.push(`${describePlace(name, origins.get(name))} ${message}`);
  }
  if (problems.length > 0) throw new ConfigError(problems);
  return { config, file, origins, warnings };
}

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

function formatYamlValue(spec: SettingSpec, value: AnyValue): string {
  const yamlValue = spec.kind === 'size' ? formatValue(spec, value) : value;
  return stringify(yamlValue ?? null, { collectionStyle: 'flow', lineWidth: 0 }).trim();
}

/**
 * Formats the effective settings as a YAML file that `loadConfig` reads back to the same values. A comment has the
 * origin of each setting. Settings without a value are comments.
 */
export function formatConfig({ config, origins }: LoadedConfig): string {
  const lines: string[] = [];
  let previousGroups: readonly string[] = [];
  for (const name of settingNames) {
    const path = name.split('.');
    const groups = path.slice(0, -1);
    let commonDepth = 0;
    while (commonDepth < groups.length && groups[commonDepth] === previousGroups[commonDepth]) commonDepth++;
    for (let depth = commonDepth; depth < groups.length; depth++) lines.push(`${'  '.repeat(depth)}${groups[depth]}:`);
    previousGroups = groups;
    const indent = '  '.repeat(groups.length);
    const value = settingValue(config, name);
    const key = path[path.length - 1]!;
    if (value === undefined) lines.push(`${indent}# ${key}: not set`);
    else lines.push(`${indent}${key}: ${formatYamlValue(settings[name], value)} # ${origins.get(name) ?? 'default'}`);
  }
  return lines.join('\n') + '\n';
}
