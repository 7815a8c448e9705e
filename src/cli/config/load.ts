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

/** Values of flags as the command line gives them: text, texts of a repeated flag, or a boolean. */
export type FlagValues = Readonly<Partial<Record<SettingName, string | boolean | readonly string[]>>>;

export interface ConfigSources {
  /** YAML file; without it `ROWAN_CONFIG` names one, or there is none. */
  readonly file?: string | undefined;
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly flags?: FlagValues;
}

export interface LoadedConfig {
  readonly config: Config;
  /** By name: what is in force. */
  readonly values: SettingValues;
  /** By name: `default`, `rowan.yaml:12`, `ROWAN_LISTEN` or `--listen`. */
  readonly origins: ReadonlyMap<SettingName, string>;
  /** For the user, to be shown once: variables that look like settings and are none. */
  readonly warnings: readonly string[];
}

/** The configuration has mistakes. `problems` are all of them, each with its place. */
export class ConfigError extends CliError {
  override readonly name = 'ConfigError';
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(problems.join('\n'), { exitCode: ExitCode.usage });
    this.problems = problems;
  }
}

/** Variables that the program reads and that are no settings. */
const OTHER_VARIABLES = new Set([
  'ROWAN_CONFIG',
  'ROWAN_ADMIN_PASSWORD',
  'ROWAN_DEBUG',
  'ROWAN_SEED',
  'ROWAN_AUTO_WORKERS',
]);

class Loading {
  readonly values: Partial<Record<SettingName, AnyValue>> = {};
  readonly origins = new Map<SettingName, string>(settingNames.map((name) => [name, 'default']));
  readonly problems: string[] = [];
  readonly warnings: string[] = [];

  readFile(file: string): void {
    const { found, problems } = readConfigFile(file);
    this.problems.push(...problems);
    for (const { name, value, line } of found) this.#set(name, value, `${basename(file)}:${line}`);
  }

  readVariables(env: Readonly<Record<string, string | undefined>>): void {
    const byVariable = new Map(settingNames.map((name) => [settingVariable(name), name]));
    for (const [variable, text] of Object.entries(env)) {
      if (!variable.startsWith('ROWAN_') || OTHER_VARIABLES.has(variable) || text === undefined) continue;
      const name = byVariable.get(variable);
      if (name) this.#readText(name, text, variable);
      else this.warnings.push(`${variable} is not a setting${didYouMean(variable, byVariable.keys())}`);
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

/** `name`, and where it was set when it was. */
function place(name: SettingName, origin: string | undefined): string {
  if (origin === undefined || origin === 'default') return name;
  return /:\d+$/.test(origin) ? `${origin}: ${name}` : origin;
}

/**
 * The settings in force: the file's, over them the variables', over them the flags'; for the rest the defaults. Throws
 * `ConfigError` with every mistake found, or the system's error when the file cannot be read.
 */
export function loadConfig({ file, env = {}, flags = {} }: ConfigSources = {}): LoadedConfig {
  const loading = new Loading();
  const path = file ?? env.ROWAN_CONFIG;
  if (path !== undefined && path !== '') loading.readFile(path);
  loading.readVariables(env);
  loading.readFlags(flags);
  const { origins, problems, warnings } = loading;
  const given = loading.values as Partial<SettingValues>;
  const config = makeConfig(given);
  if (problems.length === 0) {
    for (const { name, message } of conflicts(config)) problems.push(`${place(name, origins.get(name))} ${message}`);
  }
  if (problems.length > 0) throw new ConfigError(problems);
  return { config, values: valuesOf(config), origins, warnings };
}

function valuesOf(config: Config): SettingValues {
  const values: Record<string, unknown> = {};
  for (const name of settingNames) {
    values[name] = name.split('.').reduce<unknown>((at, part) => (at as Record<string, unknown>)[part], config);
  }
  return values as SettingValues;
}
