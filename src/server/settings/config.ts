import { BlockList, isIP } from 'node:net';
import { argon2Fault } from '../../password/argon2.js';
import type { AnyValue, SettingSpec, SettingValue } from './kinds.js';
import { type SettingName, settingNames, settings } from './table.js';

type Table = typeof settings;

export type SettingValues = { readonly [N in SettingName]: SettingValue<Table[N]> };

type Nested<Name extends string, Value> = Name extends `${infer Head}.${infer Rest}`
  ? { readonly [K in Head]: Nested<Rest, Value> }
  : { readonly [K in Name]: Value };
type Intersection<U> = (U extends unknown ? (u: U) => void : never) extends (u: infer I) => void ? I : never;
type Flat<T> = T extends readonly unknown[] ? T : T extends object ? { readonly [K in keyof T]: Flat<T[K]> } : T;

/** All settings, nested as in the YAML file: `config.limits.messageBytes`. */
export type Config = Flat<Intersection<{ [N in SettingName]: Nested<N, SettingValues[N]> }[SettingName]>>;

/** Returns the nested form, with defaults for missing settings: `makeConfig({ 'limits.connections': 100 })`. */
export function makeConfig(values: Partial<SettingValues> = {}): Config {
  const config: Record<string, unknown> = {};
  for (const name of settingNames) {
    const spec: SettingSpec = settings[name];
    setLeaf(config, name, 'default' in spec ? spec.default : undefined);
  }
  return withValues(config as Config, values);
}

/** Returns a copy of the configuration with other values of some settings. */
export function withValues(config: Config, values: Partial<SettingValues>): Config {
  const copy = structuredClone(config);
  for (const [name, value] of Object.entries(values))
    setLeaf(copy as Record<string, unknown>, name as SettingName, value);
  return copy;
}

/** Sets a setting in the nested form. Makes the groups that are missing. */
export function setLeaf(config: Record<string, unknown>, name: SettingName, value: unknown): void {
  const path = name.split('.');
  const lastKey = path.pop()!;
  let group = config;
  for (const part of path) {
    group[part] ??= {};
    group = group[part] as Record<string, unknown>;
  }
  group[lastKey] = value;
}

export function settingValue(config: Config, name: SettingName): AnyValue {
  return name.split('.').reduce<unknown>((group, key) => (group as Record<string, unknown>)[key], config) as AnyValue;
}

/** Gives a system error the setting and the file before its reason, also where it has no file (`EISDIR`). */
export function nameSetting(error: unknown, name: SettingName, path: string): unknown {
  if (error instanceof Error && 'syscall' in error)
    Object.assign(error, { path: `${name}: ${path}`, message: `${name}: ${error.message}` });
  return error;
}

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8, 'ipv4');
loopback.addAddress('::1', 'ipv6');

/** Whether this machine alone reaches the IP address. */
export function isLoopbackAddress(address: string): boolean {
  return loopback.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4');
}

/** A setting whose value contradicts another setting. */
export interface Conflict {
  readonly name: SettingName;
  /** Text that follows the name of the setting. */
  readonly message: string;
}

export function* conflicts({ data, store, tls, passwords, listen, http }: Config): Generator<Conflict> {
  if (data !== undefined && store !== undefined) yield { name: 'store', message: 'cannot stand beside data' };
  if (tls.cert !== undefined && tls.key === undefined) yield { name: 'tls.cert', message: 'needs tls.key' };
  if (tls.key !== undefined && tls.cert === undefined) yield { name: 'tls.key', message: 'needs tls.cert' };
  if (tls.ca !== undefined && tls.cert === undefined) yield { name: 'tls.ca', message: 'needs tls.cert' };
  if (tls.cert === undefined && listen.some((url) => url.startsWith('ldaps:')))
    yield { name: 'listen', message: 'has an ldaps:// URL, which needs tls.cert and tls.key' };
  const httpHost = http.listen?.replace(/:\d+$/, '').replaceAll(/[[\]]/g, '');
  if (httpHost !== undefined && http.tokenFile === undefined && isIP(httpHost) && !isLoopbackAddress(httpHost)) {
    const remedy = 'set http.tokenFile to a file with a token, or listen on 127.0.0.1';
    yield { name: 'http.listen', message: `is an address that other machines reach; ${remedy}` };
  }
  const fault = argon2Fault(passwords.argon2);
  if (fault) yield { name: 'passwords.argon2.memoryKiB', message: `does not fit the other parameters: ${fault}` };
}
