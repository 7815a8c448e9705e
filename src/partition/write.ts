import { LdapError } from '../ldap/error.js';
import type { CheckedAttribute, Rdn } from '../schema/index.js';
import type { AppendStep, Cell, Plan, PlanStep, RowStep, Store } from '../store/contract.js';
import { StoreError } from '../store/errors.js';
import { isPromise } from '../store/maybe.js';
import { MARK } from '../store/row.js';
import { type CsnClock, generalizedTime } from './csn.js';
import type { Draft, DraftAttribute } from './draft.js';
import { Implied, type ImpliedRow, implyEntry } from './implied.js';
import type { LargeAhead } from './large-ahead.js';
import { type Context, specialValue } from './locate.js';
import { type Node, nodeTreeKey, ROOT } from './nodes.js';
import { CHANGES_TABLE, Q, TREE, TREE_TABLE } from './tables.js';
import type { Actor } from './types.js';

/** What the writing operations share. */
export interface WriteContext extends Context {
  readonly store: Store;
  readonly csn: CsnClock;
}

/** Times a plan whose guard failed is made again before the operation answers `busy`. */
const MAX_TRIES = 200;

/**
 * Runs one write: `attempt` reads, checks and commits a plan. When a guard did not hold, somebody else was faster:
 * it is run again on what is there now. What was written ahead of a write that fails is taken away.
 */
export async function retrying<T>(context: WriteContext, attempt: () => Promise<T>, ahead?: LargeAhead): Promise<T> {
  for (let tries = 1; ; tries++) {
    const fresh = context.shared.fresh();
    if (isPromise(fresh)) await fresh;
    try {
      return await attempt();
    } catch (error) {
      const isGuard = error instanceof StoreError && error.code === 'guard';
      if (!isGuard || tries === MAX_TRIES) await ahead?.tidy();
      if (!isGuard) throw error;
      if (tries === MAX_TRIES)
        throw new LdapError('busy', 'others keep changing this entry; try again', { cause: error });
      const again = context.shared.refresh();
      if (isPromise(again)) await again;
      // A parent that was renamed or removed meanwhile shows only when it is read again.
      if (tries > 1) context.nodes.clear();
      if (tries > 3) await new Promise((resolve) => setTimeout(resolve, Math.random() * Math.min(tries, 20)));
    }
  }
}

export async function commitSteps(context: WriteContext, steps: PlanStep[], decisive: number): Promise<void> {
  const plan: Plan = { steps, decisive };
  await context.store.commit(plan);
  context.shared.expire();
}

/** Adds to the counters of `parent` and of every entry above it; each is guarded to be still the same entry. */
export function countSteps(parent: Node, one: bigint, sub: bigint, until?: Node): RowStep[] {
  const steps: RowStep[] = [];
  for (let node: Node | undefined = parent; node && node !== ROOT && node !== until; node = node.parent) {
    const add = [{ family: TREE.treeInfo, qualifier: Q.subLevelCount, by: sub }];
    if (node === parent && one !== 0n) add.unshift({ family: TREE.treeInfo, qualifier: Q.oneLevelCount, by: one });
    steps.push({
      table: TREE_TABLE.name,
      key: nodeTreeKey(node),
      guards: [{ op: 'equals', family: TREE.treeInfo, qualifier: Q.id, value: node.id }],
      add,
    });
  }
  return steps;
}

export function impliedOf(context: WriteContext, draft: Draft): Implied {
  const implied = new Implied();
  implyEntry(draft, context.shared.indexes, implied);
  return implied;
}

/** Steps that bring the index rows of `id` from `before` to `after`. */
export function indexSteps(id: Buffer, before: readonly ImpliedRow[], after: readonly ImpliedRow[]): RowStep[] {
  const { gone, come } = changesOf(before, after, ({ index, prefix }) => `${index.type.oid} ${nameOf(prefix)}`);
  const steps: RowStep[] = [];
  for (const { index, prefix } of gone)
    steps.push({ table: index.table, key: Buffer.concat([prefix, id]), deleteRow: true });
  for (const { index, prefix } of come)
    steps.push({ table: index.table, key: Buffer.concat([prefix, id]), put: [MARK] });
  return steps;
}

/** Cells of normAttributes that go and that come. */
export function normCellChanges(
  before: readonly Cell[],
  after: readonly Cell[],
): { gone: Cell[]; come: readonly Cell[] } {
  const { gone, come } = changesOf(
    before,
    after,
    ({ qualifier }) => nameOf(qualifier),
    (a, b) => a.value.equals(b.value),
  );
  return { gone: [...gone], come };
}

/** What goes and what comes from one list to another, of things that are known by a name. */
function changesOf<T>(
  before: readonly T[],
  after: readonly T[],
  nameOf: (one: T) => string,
  isSame: (a: T, b: T) => boolean = () => true,
): { gone: Iterable<T>; come: readonly T[] } {
  if (before.length === 0 || after.length === 0) return { gone: before, come: after };
  const gone = new Map<string, T>();
  for (const one of before) gone.set(nameOf(one), one);
  const come: T[] = [];
  for (const one of after) {
    const name = nameOf(one);
    const known = gone.get(name);
    gone.delete(name);
    if (known === undefined || !isSame(known, one)) come.push(one);
  }
  return { gone: gone.values(), come };
}

function nameOf(bytes: Buffer): string {
  return bytes.toString('latin1');
}

export interface ChangeRecord {
  readonly op: 'add' | 'modify' | 'rename' | 'delete' | 'restore';
  readonly id: Buffer;
  readonly dn: Buffer;
  readonly newDn?: Buffer;
  readonly by: string;
  readonly csn: string;
  /** Names of the attributes that changed. */
  readonly attributes?: readonly string[];
}

/** The change record: what was done, to which entry, by whom, when (ms since 1970), under which entryCSN; names, never values. */
export function changeStep(record: ChangeRecord): AppendStep {
  return { table: CHANGES_TABLE.name, append: changeCells(record) };
}

/** Qualifiers of change records. */
export const CHANGE = {
  attributes: Buffer.from('attributes'),
  by: Buffer.from('by'),
  csn: Buffer.from('csn'),
  dn: Buffer.from('dn'),
  id: Buffer.from('id'),
  newDn: Buffer.from('newDn'),
  op: Buffer.from('op'),
  time: Buffer.from('time'),
} as const;

let lastMs = 0;
let lastTime = Buffer.alloc(8);

/** Milliseconds since 1970, 8 bytes. Shared: not to be changed. */
export function changeTime(): Buffer {
  const now = Date.now();
  if (now !== lastMs) {
    lastMs = now;
    lastTime = Buffer.allocUnsafe(8);
    lastTime.writeBigUInt64BE(BigInt(now));
  }
  return lastTime;
}

/** The cells of a change record, sorted. */
export function changeCells(record: ChangeRecord): Cell[] {
  const cells: Cell[] = [];
  if (record.attributes)
    cells.push({ family: 0, qualifier: CHANGE.attributes, value: textBytes(record.attributes.join(',')) });
  cells.push(
    { family: 0, qualifier: CHANGE.by, value: textBytes(record.by) },
    { family: 0, qualifier: CHANGE.csn, value: Buffer.from(record.csn) },
    { family: 0, qualifier: CHANGE.dn, value: record.dn },
    { family: 0, qualifier: CHANGE.id, value: record.id },
  );
  if (record.newDn) cells.push({ family: 0, qualifier: CHANGE.newDn, value: record.newDn });
  cells.push(
    { family: 0, qualifier: CHANGE.op, value: textBytes(record.op) },
    { family: 0, qualifier: CHANGE.time, value: changeTime() },
  );
  return cells;
}

/** Sets modifyTimestamp, modifiersName and a new entryCSN; gives the CSN. */
export function stampModified(context: WriteContext, draft: Draft, actor: Actor): string {
  const csn = context.csn.next(draft.text('entryCSN'));
  set(context, draft, 'entryCSN', csn);
  set(context, draft, 'modifyTimestamp', generalizedTime(Date.now()));
  if (actor.dn) set(context, draft, 'modifiersName', actor.dn);
  return csn;
}

/** Sets one operational attribute to one value. */
export function set(context: Context, draft: Draft, name: string, value: string): void {
  draft.replace(context.schema.requireDescription(name), name, [textBytes(value)]);
}

const texts = new Map<string, Buffer>();
const MAX_TEXTS = 256;

/** UTF-8 of a text that mostly comes again soon: who writes, the second, a class. Shared: not to be changed. */
function textBytes(text: string): Buffer {
  const known = texts.get(text);
  if (known) return known;
  if (texts.size >= MAX_TEXTS) texts.clear();
  const made = Buffer.from(text);
  texts.set(text, made);
  return made;
}

/** Sets it unless a privileged writer brought a value. */
export function setDefault(context: Context, draft: Draft, name: string, value: string | Buffer): void {
  const bytes = typeof value === 'string' ? textBytes(value) : value;
  draft.setDefault(context.schema.requireDescription(name), name, bytes);
}

/** Every check on the whole entry; sets structuralObjectClass. Values that are as in `before`, the stored entry, were checked when they came. */
export function checkDraft(context: Context, draft: Draft, rdn: Rdn, before?: Draft): void {
  const attributes: CheckedAttribute[] = [];
  for (const attribute of draft.attributes)
    attributes.push(checked(attribute, before?.get(attribute.description) === attribute));
  const structural = context.schema.checkEntry(attributes, rdn, { system: true });
  set(context, draft, 'structuralObjectClass', structural.name);
}

function checked({ description, values, rest }: DraftAttribute, asBefore: boolean): CheckedAttribute {
  if (values.length === 1)
    return { description, values: [values[0]!.bytes], unchanged: asBefore || values[0]!.stored === true };
  const bytes: Buffer[] = [];
  // Large values, or the values of a wide attribute, that were not read: the attribute was not touched.
  let unchanged = asBefore || (rest !== undefined && values.length === 0);
  for (let i = 0; i < values.length; i++) {
    bytes.push(values[i]!.bytes);
    if (values[i]!.stored) unchanged = true;
  }
  return { description, values: bytes, unchanged };
}

/** Attributes that only the server writes are refused from others (RFC 4512 §4.1.2 NO-USER-MODIFICATION). */
export function refuseServerAttributes(
  draft: Iterable<{
    readonly description: { readonly type: { readonly noUserModification: boolean; readonly name: string } };
  }>,
  actor: Actor,
): void {
  if (actor.system) return;
  for (const { description } of draft) {
    if (description.type.noUserModification) {
      throw new LdapError(
        'constraintViolation',
        `attribute '${description.type.name}' is kept by the server and cannot be written`,
      );
    }
  }
}

/** The same where a name would bring the value. */
export function refuseServerNames(rdn: Rdn, actor: Actor): void {
  if (actor.system) return;
  for (const { type } of rdn.avas) {
    if (type.noUserModification)
      throw new LdapError(
        'constraintViolation',
        `attribute '${type.name}' is kept by the server and cannot be chosen by a name`,
      );
  }
}

/** Whether the entry changes what `NodeCache.flags` say. */
export function isSpecial(draft: Draft): boolean {
  return draft.attributes.some(
    ({ description, values }) =>
      description.type.name === 'objectClass' && values.some(({ bytes }) => specialValue(bytes) !== undefined),
  );
}
