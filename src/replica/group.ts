import { appendFileSync, createReadStream, existsSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { indexBirths } from '../partition/index/index-admin.js';
import type { PlanStep, Store } from '../store/contract.js';
import { LOG_TABLE } from '../store/log.js';
import { lastEntry } from './history.js';
import { decodePlain, encodePlain } from './plain.js';
import type { TableList } from './wire.js';

/** A part of a group of changes, which is applied at once: the tables that there are, or steps of one transaction. */
export type Part = TableList | { readonly steps: readonly PlanStep[] };

/** Its first line is the number of the last entry of the log before the group, each further one a part, as JSON. */
const fileIn = (folder: string): string => join(folder, 'replica.group');

/** Whether a group is applied in parts at present, or was until its process ended. */
export function hasHalfGroup(folder: string): boolean {
  return existsSync(fileIn(folder));
}

/** Applies a part. `ownTable`: the table that is not among `specs`. */
export async function applyPart(store: Store, part: Part, ownTable = LOG_TABLE): Promise<void> {
  if ('steps' in part) return store.commit({ steps: part.steps, decisive: 0, unlogged: true });
  const births = part.births && (await indexBirths(store));
  const same = part.specs.filter(({ name }) => part.births?.[name] === births?.[name]);
  const kept = new Set([ownTable.name, ...same.map(({ name }) => name)]);
  for (const { name } of await store.tables()) if (!kept.has(name)) await store.dropTable(name);
  for (const spec of [ownTable, ...part.specs]) await store.createTable(spec);
}

/**
 * Keeps the parts of a group until its end. A single transaction waits in memory. More are in a file, whole, before the
 * first of them is applied, so that half a group can always be finished: by `finishGroup`, before the folder follows
 * or is promoted.
 */
export class Group {
  readonly #store: Store;
  readonly #file: string;
  #parts: Part[] = [];
  #isInFile = false;

  constructor(store: Store) {
    this.#store = store;
    this.#file = fileIn(store.folder!);
  }

  async add(part: Part): Promise<void> {
    this.#parts.push(part);
    if (this.#parts.length > 1 || 'specs' in part) await this.#write();
  }

  /** Applies the group. Resolves when all of it is durable. */
  async end(): Promise<void> {
    if (this.#isInFile) {
      await this.#write();
      this.#isInFile = false;
      renameSync(`${this.#file}.new`, this.#file);
      await finishGroup(this.#store);
    } else for (const part of this.#parts.splice(0)) await applyPart(this.#store, part);
  }

  async #write(): Promise<void> {
    const file = `${this.#file}.new`;
    if (!this.#isInFile) writeFileSync(file, `${await lastEntry(this.#store)}\n`, { mode: 0o600 });
    this.#isInFile = true;
    for (const part of this.#parts.splice(0))
      appendFileSync(file, Buffer.concat([encodePlain(part), Buffer.from('\n')]), { flush: true });
  }
}

/** Applies the group that a process has left half applied, if there is one. No process may follow meanwhile. */
export async function finishGroup(store: Store): Promise<void> {
  const file = fileIn(store.folder!);
  if (!existsSync(file)) return;
  const before = String(await lastEntry(store));
  for await (const line of createInterface({ input: createReadStream(file) })) {
    const isPart = line.startsWith('{');
    if (isPart) await applyPart(store, decodePlain(Buffer.from(line)) as Part);
    // All of it is applied already: the last transaction of a group has its entries of the log.
    else if (line !== before) break;
  }
  rmSync(file);
}
