import { stringify } from 'yaml';
import {
  type AnyValue,
  formatValue,
  type SettingSpec,
  settingNames,
  settings,
  settingValue,
} from '../../server/settings/index.js';
import type { LoadedConfig } from './load.js';

function formatYamlValue(spec: SettingSpec, value: AnyValue): string {
  const yamlValue = spec.kind === 'size' ? formatValue(spec, value) : value;
  return stringify(yamlValue ?? null, { collectionStyle: 'flow', lineWidth: 0 }).trim();
}

/**
 * Formats the effective settings as a YAML file that `loadConfig` reads back to the same values. A comment has the
 * origin of each setting. Settings without a value are comments.
 */
export function formatConfig({ config, origins }: LoadedConfig): string {
  const lines: string[] = [];
  let previousGroups: readonly string[] = [];
  for (const name of settingNames) {
    const path = name.split('.');
    const groups = path.slice(0, -1);
    let commonDepth = 0;
    while (commonDepth < groups.length && groups[commonDepth] === previousGroups[commonDepth]) commonDepth++;
    for (let depth = commonDepth; depth < groups.length; depth++) lines.push(`${'  '.repeat(depth)}${groups[depth]}:`);
    previousGroups = groups;
    const indent = '  '.repeat(groups.length);
    const value = settingValue(config, name);
    const key = path[path.length - 1]!;
    if (value === undefined) lines.push(`${indent}# ${key}: not set`);
    else lines.push(`${indent}${key}: ${formatYamlValue(settings[name], value)} # ${origins.get(name) ?? 'default'}`);
  }
  return lines.join('\n') + '\n';
}
