import { isDeepStrictEqual } from 'node:util';
import { type Config, type SettingValues, setLeaf, settingValue } from './config.js';
import { type AnyValue, formatValue, type LiveEffect, type SettingSpec } from './kinds.js';
import { type SettingName, settingNames, settings } from './table.js';

/** New values of settings that can change while the server runs. Plain data, sent between processes. */
export type LiveValues = Readonly<Partial<SettingValues>>;

type Listener = (values: LiveValues) => unknown;

const listenersByConfig = new WeakMap<Config, Set<Listener>>();

/** Calls `listener` after each change of live settings in `config`. The returned function ends the calls. */
export function onSettingsChanged(config: Config, listener: Listener): () => void {
  const listeners = listenersByConfig.get(config) ?? new Set();
  listenersByConfig.set(config, listeners.add(listener));
  return () => void listeners.delete(listener);
}

/**
 * Overwrites live settings in place, in the `config` that all components of this process share. Nothing else writes to
 * a `Config`. Resolves when the listeners have passed the values on to other processes.
 */
export async function applySettings(config: Config, values: LiveValues): Promise<void> {
  const names = Object.keys(values) as SettingName[];
  if (names.length === 0) return;
  for (const name of names) {
    const spec: SettingSpec = settings[name];
    if (spec.live === undefined) throw new TypeError(`${name} cannot change while the server runs`);
    setLeaf(config as Record<string, unknown>, name, values[name]);
  }
  await Promise.all([...(listenersByConfig.get(config) ?? [])].map((listener) => listener(values)));
}

/** A setting whose value in the configuration differs from the value that the server runs with. */
export interface SettingChange {
  readonly name: SettingName;
  /** The values as texts, without passwords in URLs. */
  readonly oldText: string;
  readonly newText: string;
  /** When the new value takes effect. `restart`: the server goes on with the old one. */
  readonly effect: LiveEffect | 'restart';
}

/** Returns what differs, and the values that can be applied to the running configuration. */
export function compareConfigs(running: Config, loaded: Config): { changes: SettingChange[]; liveValues: LiveValues } {
  const changes: SettingChange[] = [];
  const liveValues: Record<string, AnyValue> = {};
  for (const name of settingNames) {
    const spec: SettingSpec = settings[name];
    const [oldValue, newValue] = [settingValue(running, name), settingValue(loaded, name)];
    if (isDeepStrictEqual(oldValue, newValue)) continue;
    const effect = spec.live ?? 'restart';
    changes.push({
      name,
      oldText: textWithoutCredentials(spec, oldValue),
      newText: textWithoutCredentials(spec, newValue),
      effect,
    });
    if (effect !== 'restart') liveValues[name] = newValue;
  }
  return { changes, liveValues: liveValues as LiveValues };
}

function textWithoutCredentials(spec: SettingSpec, value: AnyValue): string {
  return value === undefined ? 'not set' : formatValue(spec, value).replaceAll(/:\/\/[^/\s@]*@/g, '://…@');
}
