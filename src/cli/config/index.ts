/** Loads and prints the settings (src/server/settings). */
export { settingsTable, spellingsTable } from './document.js';
export { addSettingFlags, collect, flagValues } from './flags.js';
export { ConfigError, type ConfigSources, type FlagValues, type LoadedConfig, loadConfig } from './load.js';
