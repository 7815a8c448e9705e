export { addSettingFlags, collectValues, flagValues } from './flags.js';
export { ConfigError, type ConfigSources, configFile, type FlagValues, type LoadedConfig, loadConfig } from './load.js';
