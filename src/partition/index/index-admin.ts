import { randomBytes } from 'node:crypto';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Schema } from '../../schema/schema.js';
import type { AttributeType } from '../../schema/schema-types.js';
import type { Cell, Guard, Reader, RowStep } from '../../store/contract.js';
import { isPromise } from '../../store/maybe.js';
import { cellValue, unpackRow } from '../../store/row.js';
import { guardsHold, StoreError } from '../../store/store-error.js';
import { isComputed } from '../model/computed.js';
import {
  ENTRY_UUID_OID,
  type IndexRecord,
  isComplete,
  isMissing,
  type MissingIndex,
  OBJECT_CLASS_OID,
  parseIndexRecords,
} from '../model/index-set.js';
import { indexTable, META_TABLE } from '../model/tables.js';
import { retryWithFreshState, type WriteContext } from '../write/context.js';

/**
 * Key of the row `building` of table meta. For each index that is being built or dropped the row holds `OID:claim`, 8
 * bytes of time and 8 random bytes. The holder of the claim may create and drop the table, and builds the index. A new
 * build replaces the claim, so the guards of the former builder fail. A claim with time 0 was released: other processes
 * need not wait, and the table of an unlisted index must be dropped. `OID:at` is the last entryUUID done. `OID:born` is
 * the claim with which the table was created: a replica empties the table of an index that was dropped and added again.
 */
export const BUILD_KEY = Buffer.from('building');
export const claimQualifier = (oid: string) => Buffer.from(`${oid}:claim`);
export const cursorQualifier = (oid: string) => Buffer.from(`${oid}:at`);
const birthQualifier = (oid: string) => Buffer.from(`${oid}:born`);

/** Milliseconds after which the claim of an unlisted index counts as abandoned by a process that died. */
const CLAIM_MS = 60_000;
/** Milliseconds between checks whether the claim of another process has ended. */
const POLL_MS = 500;

/** Thrown while another process builds or drops the index, or has died doing so. Its claim expires in `remainingMs`. */
class ClaimedError extends LdapError {
  readonly remainingMs: number;

  constructor(type: AttributeType, remainingMs: number) {
    const seconds = Math.ceil(remainingMs / 1000);
    super(
      'busy',
      `another is adding or dropping the index of '${type.name}', or died doing so: try again in ${seconds} s`,
    );
    this.remainingMs = remainingMs;
  }
}

export interface AddIndexOptions {
  readonly substring?: boolean;
  /** Called once before waiting for another process. `ms`: the longest possible wait in milliseconds. */
  readonly onWait?: (ms: number) => void;
  /** Whether job `indexes` makes the index. Without it, an index that the job has made becomes the caller's. */
  readonly isMade?: boolean;
}

/** Attributes whose indexes the server itself uses. They cannot be dropped. */
const REQUIRED_OIDS = new Set([OBJECT_CLASS_OID, ENTRY_UUID_OID]);

/**
 * Registers an index, which every writer updates from then on. `buildIndexes` then adds the existing entries, and
 * searches use the index once it is complete. A plain index can be extended by substrings and remains in use. An index
 * under construction stays as it is. Without `onWait`, a claim of another process is `busy`.
 */
export async function addIndex(
  context: WriteContext,
  attribute: string,
  { substring = false, onWait, isMade = false }: AddIndexOptions,
): Promise<void> {
  const type = indexableType(context.schema, attribute, substring);
  const claim = newClaim();
  const endMs = Date.now() + CLAIM_MS;
  for (let isRepeated = false; ; isRepeated = true) {
    try {
      return await retryWithFreshState(context, () => listIndex(context, { type, substring }, isMade, claim));
    } catch (error) {
      if (!(error instanceof ClaimedError) || !onWait || Date.now() > endMs) throw error;
      if (!isRepeated) onWait(error.remainingMs);
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

/** Adds the index to the list as unfinished, unless the list has it already. */
async function listIndex(context: WriteContext, missing: MissingIndex, isMade: boolean, claim: Buffer): Promise<void> {
  const { type } = missing;
  const index = context.shared.indexes.ofType(type);
  if (!index) return registerIndex(context, missing, isMade, claim);
  const made = index.isMade && isMade ? true : undefined;
  if (!isMissing(context.shared.indexes, missing)) {
    if (index.isMade && !isMade)
      return context.shared.setIndexes(indexRecords(context).map((r) => (r.oid === type.oid ? { ...r, made } : r)));
    if (!isComplete(index)) return;
    throw new LdapError('entryAlreadyExists', `attribute '${type.name}' has this index already`);
  }
  const records = indexRecords(context).map((r) =>
    r.oid === type.oid ? { ...r, substring: true, substringReady: false, made } : r,
  );
  await context.shared.setIndexes(records, [claimStep(type.oid, claim)]);
}

/** Returns the attribute type. Throws if no search can use an index on the attribute. */
function indexableType(schema: Schema, attribute: string, substring: boolean): AttributeType {
  const { type, options } = schema.requireDescription(attribute);
  const refuse = (reason: string): never => {
    throw new LdapError('unwillingToPerform', `attribute '${type.name}' cannot be indexed: ${reason}`);
  };
  if (options.length > 0) refuse('an index is of an attribute with all its options; leave them out');
  if (type.secret) refuse('its values are secret');
  if (type.oid === ENTRY_UUID_OID)
    throw new LdapError('entryAlreadyExists', 'an entryUUID is looked up directly; it needs no index');
  if (isComputed(type)) refuse('it is computed when it is read');
  if (!type.equality || type.equality.test) refuse('it has no equality rule whose values can be looked up');
  if (substring && !type.substrings) refuse('it has no substrings rule; add the index without substrings');
  return type;
}

/** Creates an empty table and adds the index to the list. */
async function registerIndex(
  context: WriteContext,
  { type, substring }: MissingIndex,
  isMade: boolean,
  claim: Buffer,
): Promise<void> {
  await takeClaim(context, type.oid, claim, await claimGuard(context, type, claim));
  await underClaim(context, type.oid, claim, async () => {
    await context.store.dropTable(indexTable(type.oid).name);
    await context.store.createTable(indexTable(type.oid));
  });
  const rebuilt = context.shared.indexes.isLost(type);
  await context.shared.setIndexes(
    [
      ...indexRecords(context).filter(({ oid }) => oid !== type.oid),
      { oid: type.oid, substring, ready: false, ...(isMade && { made: true }), ...(rebuilt && { rebuilt }) },
    ],
    [claimedStep(type.oid, claim, [{ family: 0, qualifier: birthQualifier(type.oid), value: claim }])],
  );
}

/** Returns a guard that holds while no other process has a claim on the index. Throws `ClaimedError` if one has. */
async function claimGuard(context: WriteContext, type: AttributeType, callerClaim: Buffer): Promise<Guard> {
  const qualifier = claimQualifier(type.oid);
  const storedClaim = await buildCell(context, qualifier);
  if (!storedClaim) return { op: 'absent', family: 0, qualifier };
  const remainingMs = claimTime(storedClaim) + CLAIM_MS - Date.now();
  if (remainingMs > 0 && !storedClaim.equals(callerClaim)) throw new ClaimedError(type, remainingMs);
  return { op: 'equals', family: 0, qualifier, value: storedClaim };
}

/** Removes an index: writers and searches stop using it, then its table is dropped. `onlyMade`: see `Index.isMade`. */
export async function dropIndex(context: WriteContext, attribute: string, onlyMade = false): Promise<void> {
  const { type } = context.schema.requireDescription(attribute);
  if (REQUIRED_OIDS.has(type.oid))
    throw new LdapError('unwillingToPerform', `the server needs the index of '${type.name}'`);
  const claim = newClaim();
  await retryWithFreshState(context, async () => {
    const record = indexRecords(context).find(({ oid }) => oid === type.oid);
    if (!record || (onlyMade && !record.made))
      throw new LdapError('noSuchObject', `attribute '${type.name}' has no index`);
    const records = indexRecords(context).filter((r) => r.oid !== type.oid);
    await context.shared.setIndexes(records, [claimStep(type.oid, claim)]);
  });
  try {
    await finishDrop(context, type.oid, claim);
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    const message =
      `the index of '${type.name}' is out of use already, but its table is still there, ` +
      `until a server that can drops it (each attempts within two minutes): ${error.message}`;
    throw new StoreError(error.code, message, { cause: error });
  }
}

async function finishDrop(context: WriteContext, oid: string, claim: Buffer): Promise<void> {
  await underClaim(context, oid, claim, () => context.store.dropTable(indexTable(oid).name));
  // The guard fails if another process has taken over the claim. That process then finishes the work.
  const names = [claimQualifier(oid), birthQualifier(oid)].map((qualifier) => ({ family: 0, qualifier }));
  const step = { ...claimedStep(oid, claim), delete: names };
  await guardsHold(context.store.commit({ steps: [step], decisive: 0 }));
}

/**
 * Finishes, under new claims, the work of processes that died while they added or dropped an index. Returns the error
 * of a table that cannot be dropped now; the next call tries again.
 */
export async function sweepClaims(context: WriteContext): Promise<StoreError | undefined> {
  let dropError: StoreError | undefined;
  const row = await buildRow(context);
  for (const { qualifier, value } of row ? unpackRow(row) : []) {
    const oid = /^([\d.]+):claim$/.exec(qualifier.toString('latin1'))?.[1];
    const isListed = indexRecords(context).some((record) => record.oid === oid);
    if (!oid || isListed || Date.now() - claimTime(value) <= CLAIM_MS) continue;
    const claim = newClaim();
    // The guard fails if another process has taken the claim in the meantime.
    if (!(await guardsHold(takeClaim(context, oid, claim, { op: 'equals', family: 0, qualifier, value })))) continue;
    try {
      await finishDrop(context, oid, claim);
    } catch (error) {
      if (!(error instanceof StoreError && error.code === 'unavailable')) throw error;
      dropError ??= error;
    }
  }
  return dropError;
}

/** Claims an unfinished index that no process is building. Does nothing if the index is finished or claimed. */
export async function claimUnfinished(context: WriteContext, type: AttributeType): Promise<void> {
  await retryWithFreshState(context, async () => {
    const index = context.shared.indexes.ofType(type);
    if (!index || isComplete(index)) return;
    const qualifier = claimQualifier(type.oid);
    if (await buildCell(context, qualifier)) return;
    await takeClaim(context, type.oid, newClaim(), { op: 'absent', family: 0, qualifier });
  });
}

export function indexRecords(context: WriteContext): IndexRecord[] {
  return parseIndexRecords(context.shared.indexes.bytes);
}

function newClaim(): Buffer {
  const claim = randomBytes(16);
  claim.writeBigUInt64BE(BigInt(Date.now()));
  return claim;
}

function claimTime(claim: Buffer): number {
  return claim.length === 16 ? Number(claim.readBigUInt64BE()) : 0;
}

/** Returns the step that sets the claim and deletes the progress made under an earlier claim. */
function claimStep(oid: string, claim: Buffer): RowStep {
  return {
    table: META_TABLE.name,
    key: BUILD_KEY,
    delete: [{ family: 0, qualifier: cursorQualifier(oid) }],
    put: [{ family: 0, qualifier: claimQualifier(oid), value: claim }],
  };
}

/** Sets the claim. Guards that the list of indexes has not changed. */
function takeClaim(context: WriteContext, oid: string, claim: Buffer, guard: Guard): Promise<void> {
  const steps = [{ ...claimStep(oid, claim), guards: [guard] }, context.shared.guardStep(false)];
  return context.store.commit({ steps, decisive: 0 });
}

/** Runs `work` on the table while this process has the claim. Releases the claim if `work` throws. */
async function underClaim(context: WriteContext, oid: string, claim: Buffer, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    await releaseClaim(context, oid, claim);
    throw error;
  }
}

async function releaseClaim(context: WriteContext, oid: string, claim: Buffer): Promise<void> {
  const value = Buffer.from(claim);
  value.writeBigUInt64BE(0n);
  try {
    const step = claimedStep(oid, claim, [{ family: 0, qualifier: claimQualifier(oid), value }]);
    await context.store.commit({ steps: [step], decisive: 0 });
  } catch (error) {
    // Another process has the claim, or the store has failed. In the latter case the claim expires by time.
    if (!(error instanceof StoreError)) throw error;
  }
}

/** Returns a step that is refused when another process has taken over the claim. */
export function claimedStep(oid: string, claim: Buffer, put: readonly Cell[] = []): RowStep {
  return {
    table: META_TABLE.name,
    key: BUILD_KEY,
    guards: [{ op: 'equals', family: 0, qualifier: claimQualifier(oid), value: claim }],
    put,
  };
}

/** Returns `OID:born` of all indexes, in hex, by table. */
export async function indexBirths(reader: Pick<Reader, 'get'>): Promise<Readonly<Record<string, string>>> {
  const row = await reader.get(META_TABLE.name, BUILD_KEY);
  const births = (row ? unpackRow(row) : []).flatMap(({ qualifier, value }) => {
    const oid = /^([\d.]+):born$/.exec(qualifier.toString('latin1'))?.[1];
    return oid === undefined ? [] : [[indexTable(oid).name, value.toString('hex')] as const];
  });
  return Object.fromEntries(births);
}

async function buildRow(context: WriteContext): Promise<Buffer | undefined> {
  const row = context.store.get(META_TABLE.name, BUILD_KEY);
  return isPromise(row) ? await row : row;
}

export async function buildCell(context: WriteContext, qualifier: Buffer): Promise<Buffer | undefined> {
  const row = await buildRow(context);
  return row && cellValue(row, 0, qualifier);
}
