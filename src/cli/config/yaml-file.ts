import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, resolve } from 'node:path';
import type { Node } from 'yaml';
import { didYouMean, printable } from '../../schema/suggest.js';
import {
  type AnyValue,
  readValue,
  SettingFault,
  type SettingName,
  type SettingSpec,
  settingNames,
  settings,
} from '../../server/settings/index.js';

export interface FileSetting {
  readonly name: SettingName;
  readonly value: AnyValue;
  readonly line: number;
}

export interface FileSettings {
  readonly settings: readonly FileSetting[];
  /** `rowan.yaml:12: …`, in order. */
  readonly problems: readonly string[];
}

/** Loaded on demand: loading takes a twentieth of the start time, and most users have no file. */
export const loadYaml = (): typeof import('yaml') => createRequire(import.meta.url)('yaml');

const MAX_FILE_BYTES = 1024 * 1024;

/** Groups of settings: `limits`, `limits.search`. */
const settingGroups = new Set<string>();
for (const name of settingNames) {
  for (let at = name.indexOf('.'); at > 0; at = name.indexOf('.', at + 1)) settingGroups.add(name.slice(0, at));
}

export function isSetting(name: string): name is SettingName {
  return Object.hasOwn(settings, name);
}

class ConfigReader {
  readonly settings: FileSetting[] = [];
  readonly problems: string[] = [];
  readonly #file: string;
  readonly #folder: string;
  readonly #yaml = loadYaml();
  readonly #lineCounter = new this.#yaml.LineCounter();

  constructor(file: string) {
    this.#file = basename(file);
    this.#folder = dirname(resolve(file));
  }

  read(text: string): void {
    const document = this.#yaml.parseDocument(text, { lineCounter: this.#lineCounter, prettyErrors: false });
    for (const error of document.errors) this.#addProblem(error.pos[0], error.message);
    if (this.problems.length > 0 || document.contents === null) return;
    if (this.#yaml.isScalar(document.contents) && document.contents.value === null) return;
    this.#readNode('', document.contents);
  }

  #lineAt(offset: number): number {
    return this.#lineCounter.linePos(offset).line;
  }

  #addProblem(offset: number, message: string): void {
    this.problems.push(`${this.#file}:${this.#lineAt(offset)}: ${message}`);
  }

  /** Reads the keys below `prefix` ('' or `limits.`). */
  #readNode(prefix: string, node: Node): void {
    if (!this.#yaml.isMap(node)) {
      this.#addProblem(
        node.range?.[0] ?? 0,
        prefix === ''
          ? 'must be settings, one a line, like "listen: …"'
          : `${prefix.slice(0, -1)} must be a group of settings`,
      );
      return;
    }
    for (const { key, value } of node.items) {
      const offset = (key as Node).range?.[0] ?? 0;
      const name = prefix + (this.#yaml.isScalar(key) ? String(key.value) : '');
      if (isSetting(name)) this.#readSetting(name, value as Node | null, offset);
      else if (!settingGroups.has(name))
        this.#addProblem(
          offset,
          `${printable(name)} is not a setting${didYouMean(name, [...settingNames, ...settingGroups])}`,
        );
      else if (value !== null && !(this.#yaml.isScalar(value) && value.value === null))
        this.#readNode(name + '.', value as Node);
    }
  }

  #readSetting(name: SettingName, node: Node | null, offset: number): void {
    const raw = this.#readRawValue(settings[name], node);
    if (raw === null) {
      this.#addProblem(offset, `${name} has no value`);
      return;
    }
    try {
      const value = readValue(settings[name], raw, false, (path) => resolve(this.#folder, path));
      this.settings.push({ name, value, line: this.#lineAt(offset) });
    } catch (error) {
      if (!(error instanceof SettingFault)) throw error;
      this.#addProblem(offset, `${name} ${error.message}`);
    }
  }

  /** Returns the raw value. File modes keep their written digits: YAML would read 0o660 as 432. */
  #readRawValue(spec: SettingSpec, node: Node | null): unknown {
    if (spec.kind === 'mode' && this.#yaml.isScalar(node) && typeof node.value === 'number') return node.source;
    return node === null ? null : node.toJSON();
  }
}

/** Reads the settings in a YAML file, or in `text` as if it were in there. Throws a system error when it cannot. */
export function readConfigFile(file: string, text?: string): FileSettings {
  const bytes = text === undefined ? readFileSync(file) : Buffer.from(text);
  if (bytes.length > MAX_FILE_BYTES)
    return { settings: [], problems: [`${basename(file)}: ${bytes.length} bytes are no configuration`] };
  const reader = new ConfigReader(file);
  reader.read(bytes.toString('utf8'));
  return reader;
}
