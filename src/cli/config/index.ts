export { settingsTable, spellingsTable } from './document.js';
export { addSettingFlags, collectValues, flagValues } from './flags.js';
export { ConfigError, type ConfigSources, type FlagValues, type LoadedConfig, loadConfig } from './load.js';
