import { basename, resolve } from 'node:path';
import { didYouMean } from '../../schema/suggest.js';
import {
  type AnyValue,
  type Config,
  conflicts,
  makeConfig,
  readValue,
  SettingFault,
  type SettingName,
  type SettingValues,
  settingFlag,
  settingNames,
  settings,
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
