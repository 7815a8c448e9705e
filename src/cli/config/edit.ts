import { closeSync, fchmodSync, fchownSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import type { Node, YAMLMap } from 'yaml';
import type { AnyValue, Config, SettingName } from '../../server/settings/index.js';
import { AtomicFile } from '../atomic-file.js';
import { CliError } from '../exit.js';
import { ConfigError, loadConfig } from './load.js';
import { loadYaml, readConfigFile } from './yaml-file.js';

/** A setting to write: its value, and how the file spells the value. Without both: a setting to remove. */
export interface SettingEdit {
  readonly name: SettingName;
  readonly value?: AnyValue;
  readonly yamlValue?: unknown;
}

/** A changed configuration that is not written yet. */
export interface EditedConfig {
  readonly file: string;
  readonly edits: readonly SettingEdit[];
  readonly oldText: string;
  readonly text: string;
  readonly config: Config;
}

/**
 * Changes settings in the text of a YAML file. Comments and order stay. Throws `ConfigError` when the result would have
 * a mistake together with the variables `env`.
 */
export function editConfig(
  file: string,
  edits: readonly SettingEdit[],
  env: Readonly<Record<string, string | undefined>>,
): EditedConfig {
  const oldText = readFileSync(file, 'utf8');
  // A mistake elsewhere might be a group that is none. Wrong values of these settings are about to be replaced.
  const problems = readConfigFile(file, oldText).problems.filter(
    (problem) => !edits.some(({ name }) => problem.includes(`: ${name} `)),
  );
  if (problems.length > 0) throw new ConfigError(problems);
  const text = edits.reduce((editedText, edit) => editText(editedText, file, edit), oldText);
  const { config } = loadConfig({ file, text, env });
  const written = new Map(readConfigFile(file, text).settings.map(({ name, value }) => [name, value]));
  for (const { name, value } of edits) {
    if (!isDeepStrictEqual(written.get(name), value))
      throw new CliError(`${file} sets ${name} in several places; leave one of them, and try again`);
  }
  return { file, edits, oldText, text, config };
}

function editText(text: string, file: string, { name, yamlValue }: SettingEdit): string {
  const yaml = loadYaml();
  const document = yaml.parseDocument(text);
  if (!yaml.isMap(document.contents))
    document.contents = document.createNode({}) as unknown as typeof document.contents;
  const path = findPath(document.contents as unknown as YAMLMap, name);
  if (yamlValue === undefined) {
    if (!document.hasIn(path)) throw new CliError(`${file} does not set ${name}`);
    document.deleteIn(path);
    for (let depth = path.length - 1; depth > 0; depth--) {
      const group = document.getIn(path.slice(0, depth));
      if (yaml.isMap(group) && group.items.length === 0) document.deleteIn(path.slice(0, depth));
    }
  } else document.setIn(path, yamlValue);
  return document.toString({
    lineWidth: 0,
    indent: /^( +)[^\s#-]/m.exec(text)?.[1]?.length ?? 2,
    indentSeq: !/^( *)[^\s#-].*:\s*\n\1- /m.test(text),
  });
}

/** Returns the keys that lead to a setting: those in the file, where a key may also have dots. */
function findPath(map: YAMLMap, name: string): string[] {
  const yaml = loadYaml();
  for (const pair of map.items) {
    const key = yaml.isScalar(pair.key) ? String(pair.key.value) : '';
    if (key === name) return [key];
    if (!name.startsWith(`${key}.`)) continue;
    const group = pair.value as Node | null;
    // A group without settings is null in YAML.
    if (!yaml.isMap(group)) pair.value = new yaml.YAMLMap();
    return [key, ...findPath(pair.value as YAMLMap, name.slice(key.length + 1))];
  }
  return name.split('.');
}

/** Replaces the file as a whole. Its permissions stay. */
export function replaceConfigFile(file: string, text: string): void {
  const { mode, uid, gid } = statSync(file);
  const atomicFile = new AtomicFile(file);
  writeFileSync(atomicFile.fd, text);
  if (uid !== process.geteuid?.() || gid !== process.getegid?.()) fchownSync(atomicFile.fd, uid, gid);
  fchmodSync(atomicFile.fd, mode & 0o7777);
  closeSync(atomicFile.fd);
  atomicFile.finish();
}
