import { resolve } from 'node:path';
import type { Command, CommandOptions } from 'commander';
import type { Config, SettingName } from '../server/settings/index.js';
import { addSettingFlags, type ConfigSources, flagValues, type LoadedConfig, loadConfig } from './config/index.js';
import { UsageError } from './exit.js';

export interface Settings {
  readonly config: Config;
  /** Place of the directory: its folder, absolute, or an `hbase://` URL. */
  readonly store: string;
  /** Path of the configuration file, if there is one. */
  readonly file?: string | undefined;
}

/** Settings that every command on a directory takes as flags. `serve` and `config` take all settings. */
const COMMON_SETTINGS: readonly SettingName[] = [
  'data',
  'store',
  'hbase.site',
  'hbase.rest',
  'hbase.durability',
  'hbase.regions',
  'schema.folders',
  'schema.nis',
];

/** Adds a command that only has subcommands. */
export function commandGroup(parent: Command, name: string, description: string, examples: string): Command {
  return parent.command(name).description(description).addHelpText('after', examples);
}

/** Adds a command on a directory, with `--config` and `COMMON_SETTINGS` as flags. `--help` ends with the examples. */
export function directoryCommand(
  parent: Command,
  name: string,
  description: string,
  examples = '',
  options: CommandOptions = {},
): Command {
  const command = parent.command(name, options).description(description).addHelpText('after', examples);
  return addSettingFlags(command, COMMON_SETTINGS);
}

/** Listener of an option `--tls-ca` about servers that the command asks: the setting of this name is about clients. */
export function noSetting(this: Command, value: string): void {
  this.setOptionValue('tlsCa', value);
}

/** Returns where the settings of a command come from. */
export function configSources(command: Command): ConfigSources {
  const file = command.getOptionValue('config') as string | undefined;
  return { file, env: process.env, flags: flagValues(command) };
}

/** Loads the settings from file, variables and flags. Prints warnings on standard error. */
export function loadSettings(command: Command): LoadedConfig {
  const loadedConfig = loadConfig(configSources(command));
  for (const warning of loadedConfig.warnings) process.stderr.write(`rowan: ${warning}\n`);
  return loadedConfig;
}

/** Returns the settings of a command that needs a directory. `fallback` is its default folder. */
export function resolveSettings(command: Command, defaultFolder?: string): Settings {
  const { config, file } = loadSettings(command);
  const store = config.store ?? config.data ?? (defaultFolder === undefined ? undefined : resolve(defaultFolder));
  if (store === undefined)
    throw new UsageError(
      "no data folder: give '--data <dir>' or '--store <url>', or set 'data' or 'store' in the configuration file, or ROWAN_DATA or ROWAN_STORE",
    );
  return { config, store, file };
}
