import { stringify } from 'yaml';
import { type AnyValue, formatValue, type SettingSpec, settingNames, settings } from '../../server/settings/index.js';
import type { LoadedConfig } from './load.js';

function yamlValue(spec: SettingSpec, value: AnyValue): string {
  const shown = spec.kind === 'size' ? formatValue(spec, value) : value;
  return stringify(shown ?? null, { collectionStyle: 'flow', lineWidth: 0 }).trim();
}

/**
 * What is in force and where from, as a YAML file that `loadConfig` reads again to the same values: each setting with
 * its origin in a comment; those without a value are comments altogether.
 */
export function formatConfig({ values, origins }: LoadedConfig): string {
  const lines: string[] = [];
  let open: readonly string[] = [];
  for (const name of settingNames) {
    const path = name.split('.');
    const groups = path.slice(0, -1);
    let common = 0;
    while (common < groups.length && groups[common] === open[common]) common++;
    for (let depth = common; depth < groups.length; depth++) lines.push(`${'  '.repeat(depth)}${groups[depth]}:`);
    open = groups;
    const indent = '  '.repeat(groups.length);
    const value = values[name];
    const key = path[path.length - 1]!;
    if (value === undefined) lines.push(`${indent}# ${key}: not set`);
    else lines.push(`${indent}${key}: ${yamlValue(settings[name], value)} # ${origins.get(name) ?? 'default'}`);
  }
  return lines.join('\n') + '\n';
}
