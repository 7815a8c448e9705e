export {
  addSettingFlags,
  ConfigError,
  type ConfigSources,
  collectValues,
  configFile,
  type FlagValues,
  flagValues,
  type LoadedConfig,
  loadConfig,
} from './load.js';
