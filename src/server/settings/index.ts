/** Names, types and defaults of the settings. `src/cli/config` reads their values from file, variables and flags. */
export { type Config, type Conflict, conflicts, defaultValues, makeConfig, type SettingValues } from './config.js';
export { type AnyValue, formatValue, readValue, SettingFault, type SettingSpec } from './kinds.js';
export { type SettingName, settingFlag, settingNames, settings, settingVariable } from './table.js';
