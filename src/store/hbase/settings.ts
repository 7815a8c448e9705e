import type { TableSpec } from '../contract.js';
import { StoreError } from '../store-error.js';
import type { RpcSettings } from './rpc/rpc-types.js';
import type { SiteSettings } from './site-file.js';

export interface HBaseSettings extends RpcSettings {
  /** URL of the REST gateway, which creates and drops tables; undefined if none may be used. */
  readonly restUrl: string | undefined;
  /** Whether the address of the gateway is derived from the first master's. */
  readonly isRestUrlGuessed: boolean;
  readonly namespace: string;
  /** Prefix of all table names, including the `_`. */
  readonly prefix: string;
  /** `fsync`: acknowledged writes are on the disks of the data nodes, not only in their memory. */
  readonly durability: Durability;
  /** Initial number of regions of a large table; 0: the number of region servers. */
  readonly regions: number;
  /** Returns the keys at which a new table is split into about `regions` regions. */
  readonly splitKeys?: ((spec: TableSpec, regions: number) => readonly Buffer[]) | undefined;
}

export type Durability = 'default' | 'fsync';

export interface HBaseOptions {
  /** `hbase://HOST:PORT[,…][/[NAMESPACE:][PREFIX]][?rest=HOST:PORT]`. Without hosts: the site file's masters. */
  readonly url: string;
  /** Settings from an hbase-site.xml. */
  readonly site?: SiteSettings | undefined;
  /** `http://HOST:PORT`, `https://HOST:PORT` or `none`. */
  readonly rest?: string | undefined;
  readonly durability?: Durability;
  readonly operationTimeoutMs?: number;
  readonly user?: string | undefined;
  readonly regions?: number;
  readonly splitKeys?: HBaseSettings['splitKeys'];
}

/** HBase's default port of masters. */
const MASTER_PORT = 16_000;
/** HBase's default port of gateways. The assumed port differs from it by as much as the master's from `MASTER_PORT`. */
const REST_PORT = 8080;

const DEFAULTS = {
  operationTimeoutMs: 30_000,
  rpcTimeoutMs: 10_000,
  scannerTimeoutMs: 60_000,
  retryPauseMs: 100,
  user: 'rowan',
  maxInFlightPerServer: 256,
  maxQueuedBytes: 64 * 1024 * 1024,
  namespace: 'default',
  prefix: 'rowan_',
  durability: 'default',
  regions: 0,
} as const;

const EXAMPLE_URL = 'hbase://HOST:PORT[,HOST:PORT…][/PREFIX]';
const HOST_PORT_PATTERN = /^(?:[A-Za-z0-9._-]{1,253}|\[[0-9a-fA-F:.]{2,45}\]):\d{1,5}$/;
/** The characters that HBase allows in names of namespaces, and in names of tables (where the first is restricted). */
const NAMESPACE_PATTERN = /^[A-Za-z0-9_]{1,100}$/;
const PREFIX_PATTERN = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$/;

function formatError(message: string): StoreError {
  return new StoreError('format', message);
}

interface Address {
  readonly masters: readonly string[];
  readonly namespace: string;
  readonly prefix: string;
  readonly rest: string | undefined;
}

export function isHBaseUrl(text: string): boolean {
  return text.startsWith('hbase://');
}

function parseAddress(url: string): Address {
  const match = /^hbase:\/\/([^/?#]*)(?:\/([^?#]*))?(?:\?rest=([^&#]+))?$/.exec(url);
  if (!match) throw formatError(`"${url.slice(0, 200)}" is no HBase address like ${EXAMPLE_URL}`);
  const [, hosts = '', path = '', rest] = match;
  const masters = hosts === '' ? [] : hosts.split(',').map(masterAddress);
  const colon = path.indexOf(':');
  const namespace = colon < 0 ? DEFAULTS.namespace : path.slice(0, colon);
  const prefixName = path.slice(colon + 1);
  if (!NAMESPACE_PATTERN.test(namespace)) throw formatError(`"${namespace}" is no name of an HBase namespace`);
  if (prefixName !== '' && !PREFIX_PATTERN.test(prefixName))
    throw formatError(`"${prefixName}" cannot begin the names of HBase tables`);
  // In a namespace of its own, a directory needs no prefix.
  const prefix = prefixName !== '' ? `${prefixName}_` : colon < 0 ? DEFAULTS.prefix : '';
  return { masters, namespace, prefix, rest: rest === undefined ? undefined : `http://${decodeURIComponent(rest)}` };
}

function masterAddress(text: string): string {
  const address = /:\d+$/.test(text) ? text : `${text}:${MASTER_PORT}`;
  const port = Number(address.slice(address.lastIndexOf(':') + 1));
  if (!HOST_PORT_PATTERN.test(address) || port < 1 || port > 65_535)
    throw formatError(`"${text}" is no address of an HBase master: HOST:PORT is needed`);
  return address;
}

/** Checks the URL of a gateway. Returns undefined for `none`. */
function parseGateway(text: string): string | undefined {
  if (text === 'none') return undefined;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.username !== '' || url.search !== '' || url.hash !== '') {
    throw formatError(`"${text}" is no address of an HBase REST gateway like http://HOST:8080 (or "none")`);
  }
  return url.href.replace(/\/$/, '');
}

function defaultGateway(master: string): string | undefined {
  const colon = master.lastIndexOf(':');
  const port = REST_PORT + Number(master.slice(colon + 1)) - MASTER_PORT;
  return port >= 1 && port <= 65_535 ? `http://${master.slice(0, colon)}:${port}` : undefined;
}

/** Returns the effective settings. Throws `StoreError` `format` for invalid options. */
export function hbaseSettings(options: HBaseOptions): HBaseSettings {
  const address = parseAddress(options.url);
  const { site } = options;
  const masters = address.masters.length > 0 ? address.masters : (site?.masters ?? []).map(masterAddress);
  const firstMaster = masters[0];
  if (firstMaster === undefined)
    throw formatError(`no HBase master is named: give ${EXAMPLE_URL}, or an hbase-site.xml with hbase.masters`);
  const host = firstMaster.slice(0, firstMaster.lastIndexOf(':'));
  const explicitRestUrl = options.rest ?? address.rest;
  const restUrl = explicitRestUrl ?? (site?.restPort === undefined ? undefined : `http://${host}:${site.restPort}`);
  return {
    ...DEFAULTS,
    ...site?.timeouts,
    masters,
    operationTimeoutMs: options.operationTimeoutMs ?? DEFAULTS.operationTimeoutMs,
    user: options.user ?? DEFAULTS.user,
    durability: options.durability ?? DEFAULTS.durability,
    regions: options.regions ?? DEFAULTS.regions,
    splitKeys: options.splitKeys,
    namespace: address.namespace,
    prefix: address.prefix,
    isRestUrlGuessed: explicitRestUrl === undefined,
    restUrl: restUrl === undefined ? defaultGateway(firstMaster) : parseGateway(restUrl),
  };
}
