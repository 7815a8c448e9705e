import { resolve } from 'node:path';
import type { Command, CommandOptions } from 'commander';
import type { Config, SettingName } from '../server/settings/index.js';
import { addSettingFlags, flagValues, type LoadedConfig, loadConfig } from './config/index.js';
import { UsageError } from './exit.js';

/** What is in force for a command. */
export interface Settings {
  readonly config: Config;
  /** Where the directory is: its folder, absolute, or an `hbase://` URL. */
  readonly store: string;
}

/** Settings that every command with a directory takes as flags; `serve` and `config` take all. */
const COMMON: readonly SettingName[] = [
  'data',
  'store',
  'hbase.site',
  'hbase.rest',
  'hbase.durability',
  'hbase.regions',
  'schema.folders',
  'schema.nis',
];

/** For options that may be repeated. */
export function collect(value: string, before: readonly string[] | undefined): string[] {
  return [...(before ?? []), value];
}

/** A command that works with a directory: `--data`, `--config` and the settings that every command needs. */
export function directoryCommand(
  parent: Command,
  name: string,
  description: string,
  options: CommandOptions = {},
): Command {
  return addSettingFlags(parent.command(name, options).description(description), COMMON);
}

/** All the settings as flags. */
export function addServerOptions(command: Command): Command {
  return addSettingFlags(command);
}

/** The settings from file, variables and flags; what looks wrong in them is said on standard error. */
export function loadSettings(command: Command): LoadedConfig {
  const file = command.getOptionValue('config') as string | undefined;
  const loaded = loadConfig({ file, env: process.env, flags: flagValues(command) });
  for (const warning of loaded.warnings) process.stderr.write(`rowan: ${warning}\n`);
  return loaded;
}

/** The settings of a command that cannot do without a directory. `fallback` is its folder when nothing is given. */
export function settingsOf(command: Command, fallback?: string): Settings {
  const { config } = loadSettings(command);
  const store = config.store ?? config.data ?? (fallback === undefined ? undefined : resolve(fallback));
  if (store === undefined)
    throw new UsageError(
      "no data folder: give '--data <dir>' or '--store <url>', or set 'data' or 'store' in the configuration file, or ROWAN_DATA or ROWAN_STORE",
    );
  return { config, store };
}
