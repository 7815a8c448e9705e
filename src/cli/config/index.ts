/** The settings (src/server/settings) from a YAML file, variables and flags, and printed back. */
export { settingsTable, spellingsTable } from './document.js';
export { addSettingFlags, flagValues } from './flags.js';
export { ConfigError, type ConfigSources, type FlagValues, type LoadedConfig, loadConfig } from './load.js';
