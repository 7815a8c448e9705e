import {
  formatValue,
  type SettingName,
  type SettingSpec,
  settingFlag,
  settingNames,
  settings,
  settingVariable,
} from '../../src/server/settings/index.js';

function valueColumn(spec: SettingSpec): string {
  switch (spec.kind) {
    case 'integer':
    case 'size':
    case 'duration': {
      const kind = { integer: 'number', size: 'size', duration: spec.kind === 'duration' ? spec.unit : '' }[spec.kind];
      const range = `${kind}, ${formatValue(spec, spec.min)} to ${formatValue(spec, spec.max)}`;
      return spec.zeroIsUnlimited ? `${range}; 0: no limit` : range;
    }
    case 'count':
      return `\`${spec.default}\`, or a number, ${spec.min} to ${spec.max}`;
    case 'boolean':
      return '`true` or `false`';
    case 'choice':
      return spec.choices.map((choice) => `\`${choice}\``).join(', ');
    case 'mode':
      return 'octal digits';
    case 'schedule':
      return 'cron pattern, or `off`';
    case 'path':
      return 'path';
    case 'output':
      return `path, ${spec.words.map((word) => `\`${word}\``).join(', ')}`;
    case 'text':
      return 'text';
    case 'paths':
      return 'list of paths';
    case 'urls':
      return 'list of URLs';
  }
}

function settingRow(name: SettingName): string {
  const spec: SettingSpec = settings[name];
  const value = 'default' in spec ? formatValue(spec, spec.default) : '';
  const defaultText = value === '' ? 'none' : `\`${value}\``;
  const cells = [`\`${name}\``, valueColumn(spec), defaultText, spec.live ?? 'restart', spec.help];
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
}

/** Returns the table of all settings for docs/configuration.md. A test compares the two. */
export function settingsTable(): string {
  const headLines = ['| setting | value | default | changes | meaning |', '| --- | --- | --- | --- | --- |'];
  return [...headLines, ...settingNames.map(settingRow)].join('\n') + '\n';
}

/** Returns the table of flags and variables for docs/configuration.md. */
export function spellingsTable(): string {
  const headLines = ['| setting | flag | variable |', '| --- | --- | --- |'];
  const rows = settingNames.map((name) => `| \`${name}\` | \`${settingFlag(name)}\` | \`${settingVariable(name)}\` |`);
  return [...headLines, ...rows].join('\n') + '\n';
}
