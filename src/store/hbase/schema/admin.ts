import { setTimeout as sleep } from 'node:timers/promises';
import { StoreError } from '../../store-error.js';
import type { HBaseSettings } from '../settings.js';
import type { TableDescriptor } from './descriptor.js';
import { type ExistingTable, Gateway } from './gateway.js';
import { alterCommand, createCommand, dropCommands } from './shell.js';
import { type MasterCall, splitAt, spread } from './split.js';

/** What an attribute has to be for nothing to be lost; whatever else differs is the operator's tuning. */
const SAFE: readonly { readonly name: string; readonly safe: (value: string) => boolean; readonly wanted: string }[] = [
  { name: 'TTL', safe: (value) => value === '2147483647' || value === 'FOREVER', wanted: 'FOREVER' },
  { name: 'KEEP_DELETED_CELLS', safe: (value) => value === 'FALSE', wanted: 'FALSE' },
  { name: 'VERSIONS', safe: (value) => value === '1', wanted: '1' },
];

/** How long it is waited for another front end that makes the same table, and between looks, ms. */
const RACE_MS = 60_000;
const RACE_PAUSE_MS = 100;

/**
 * The gateway switches a table off and on that came into being while it was asked to make it; two such requests meet.
 */
function isRace(error: unknown): boolean {
  return error instanceof StoreError && /Table(NotEnabled|NotDisabled|Exists)Exception/.test(error.message);
}

/** What keeps an existing table from being the one that is described; empty when nothing does. */
export function differences(wanted: TableDescriptor, found: ExistingTable): string[] {
  const list: string[] = [];
  for (const [name, value] of Object.entries(wanted.attributes)) {
    // A stronger durability than asked for harms nobody.
    if (name === 'DURABILITY' && found.attributes[name] === 'FSYNC_WAL') continue;
    const is = found.attributes[name] ?? 'USE_DEFAULT';
    if (is !== value && !(name === 'DURABILITY' && value === 'USE_DEFAULT' && is === 'SYNC_WAL')) {
      list.push(`${name} is ${is}, not ${value}: alter '${wanted.name}', ${name} => '${value}'`);
    }
  }
  for (const family of wanted.families) {
    const is = found.families.get(family.name);
    if (!is) continue;
    const fix = (name: string, value: string): string =>
      `alter '${wanted.name}', {NAME => '${family.name}', ${name} => '${value}'}`;
    for (const { name, safe, wanted: value } of SAFE) {
      const has = is[name];
      if (has !== undefined && !safe(has))
        list.push(`family ${family.name}: ${name} is ${has}, not ${value}: ${fix(name, value)}`);
    }
    const ordered = family.attributes.NEW_VERSION_BEHAVIOR;
    if (ordered !== undefined && is.NEW_VERSION_BEHAVIOR !== ordered) {
      list.push(`family ${family.name}: NEW_VERSION_BEHAVIOR is not true: ${fix('NEW_VERSION_BEHAVIOR', 'true')}`);
    }
  }
  return list;
}

/** Makes, verifies and drops HBase tables. Everything rejects with `StoreError`. */
export class TableAdmin {
  readonly #gateway: Gateway | undefined;
  readonly #call: MasterCall;
  #servers: Promise<number> | undefined;

  /** `call` goes to the active master, for what the gateway cannot do. */
  constructor({ rest, isRestGuessed }: Pick<HBaseSettings, 'rest' | 'isRestGuessed'>, call: MasterCall) {
    this.#gateway = rest === undefined ? undefined : new Gateway(rest, isRestGuessed);
    this.#call = call;
  }

  /** Whether there is a gateway. */
  get makesTables(): boolean {
    return this.#gateway !== undefined;
  }

  /** Whether the gateway can be asked now; true where there is none. */
  async answers(): Promise<boolean> {
    try {
      await this.#gateway?.tables();
      return true;
    } catch (error) {
      if (error instanceof StoreError && error.code === 'unavailable') return false;
      throw error;
    }
  }

  /** Region servers at the first question; `otherwise` where no gateway may be asked. */
  async servers(otherwise: number): Promise<number> {
    const asked = this.#servers ?? this.#gateway?.servers().then((list) => list.length);
    this.#servers = asked;
    try {
      return (await asked) ?? otherwise;
    } catch (error) {
      if (this.#servers === asked) this.#servers = undefined;
      throw error;
    }
  }

  /**
   * Makes the table, pre-split and its regions spread over the servers; one that is there is verified and gets the
   * families it lacks. `exists` tells whether it is there where no gateway may be asked.
   */
  async create(table: TableDescriptor, exists: () => Promise<boolean>): Promise<void> {
    const gateway = this.#gateway;
    if (!gateway) {
      if (await exists()) return;
      throw withoutGateway(`table ${table.name} is not there`, [createCommand(table)]);
    }
    for (const end = performance.now() + RACE_MS; ; await sleep(RACE_PAUSE_MS)) {
      const found = await gateway.describe(table.name);
      if (found) return this.#complete(gateway, table, found);
      try {
        if (await gateway.create(table)) {
          await splitAt(gateway, this.#call, table.name, table.splits);
          return await spread(gateway, this.#call, table.name);
        }
      } catch (error) {
        if (!isRace(error) || performance.now() > end) throw error;
      }
      // Another front end was faster, or is at it.
    }
  }

  async #complete(gateway: Gateway, table: TableDescriptor, found: ExistingTable): Promise<void> {
    const wrong = differences(table, found);
    if (wrong.length > 0) throw new StoreError('conflict', `HBase table ${table.name}: ${wrong.join('; ')}`);
    const missing = table.families.map(({ name }) => name).filter((name) => !found.families.has(name));
    if (missing.length > 0) await gateway.addFamilies(table, missing);
  }

  /** What is wrong with the table, for people; undefined where no gateway may be asked. */
  async verify(table: TableDescriptor): Promise<string[] | undefined> {
    if (!this.#gateway) return undefined;
    const found = await this.#gateway.describe(table.name);
    if (!found) return [`it is not there: ${createCommand(table)}`];
    const missing = table.families.map(({ name }) => name).filter((name) => !found.families.has(name));
    const lack = missing.length === 0 ? [] : [`families are missing: ${alterCommand(table, missing)}`];
    return [...lack, ...differences(table, found)];
  }

  /** No error when it is not there. */
  async drop(name: string): Promise<void> {
    if (!this.#gateway) throw withoutGateway(`table ${name} is no longer used and can be dropped`, dropCommands(name));
    try {
      await this.#gateway.drop(name);
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      const message = `${error.message}; HBase's shell drops the table, too:\n${dropCommands(name).join('\n')}`;
      throw new StoreError(error.code, message, { cause: error });
    }
  }
}

function withoutGateway(what: string, commands: readonly string[]): StoreError {
  return new StoreError('unavailable', `${what}; without a REST gateway give HBase's shell:\n${commands.join('\n')}`);
}
