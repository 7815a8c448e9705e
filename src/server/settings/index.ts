/**
 * The settings: what there is, of what type, with which default. Read from file, variables and flags by src/cli/config.
 */
export { type Config, type Conflict, conflicts, defaultValues, makeConfig, type SettingValues } from './config.js';
export { type AnyValue, formatValue, readValue, SettingFault, type SettingSpec } from './kinds.js';
export { type SettingName, settingFlag, settingNames, settings, settingVariable } from './table.js';
