/** Names, types and defaults of the settings. `src/cli/config` reads their values from file, variables and flags. */
export {
  type Config,
  type Conflict,
  conflicts,
  isLoopbackAddress,
  makeConfig,
  nameSetting,
  type SettingValues,
  settingValue,
  withValues,
} from './config.js';
export { type AnyValue, formatValue, type LiveEffect, readValue, SettingFault, type SettingSpec } from './kinds.js';
export { applySettings, compareConfigs, type LiveValues, onSettingsChanged, type SettingChange } from './live.js';
export { type SettingName, settingFlag, settingNames, settings, settingVariable } from './table.js';
