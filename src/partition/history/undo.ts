import { LdapError } from '../../ldap/ldap-error.js';
import type { EntryChange } from '../../ldap/ldap-types.js';
import type { Schema } from '../../schema/schema.js';
import { EMPTY } from '../../store/row.js';
import type { Directory } from '../directory.js';
import { type NumberedChange, timeMs } from '../feed/change-reader.js';
import { changeRecord } from '../model/change-record.js';
import type { Actor } from '../model/directory-types.js';
import { CHANGES_TABLE, numberKey, parentIdOf, upRdnOf } from '../model/tables.js';
import { type ChangeContext, changesBetween, hiddenValues } from './entry-change.js';
import { type ChangeStep, FormerRows } from './former-rows.js';

/** What undoing needs of the directory. */
export type ChangedDirectory = Directory & ChangeContext & { restore(id: Buffer, actor: Actor): Promise<string> };

/**
 * Undoes changes, given by their numbers, the newest first, by ordinary writes: a change by one that sets back what it
 * set, an add or a restoration by a deletion, a deletion by a restoration. `onUndone` gets each change and its writes.
 *
 * Throws `unwillingToPerform` with all reasons before the first write, where later changes that are not given stand
 * against it, or former values are not kept; with `onHidden` such values stay. A write that is refused, for a name that
 * is taken say, ends the work: what was undone before stays so.
 */
export async function undoChanges(
  directory: ChangedDirectory,
  numbers: readonly bigint[],
  actor: Actor,
  onUndone: (record: NumberedChange, writes: readonly EntryChange[]) => void,
  onHidden?: (record: NumberedChange, value: string) => void,
): Promise<void> {
  for (const step of await requireUndoable(directory, numbers, onHidden)) {
    try {
      onUndone(step.record, await undo(directory, step, actor));
    } catch (error) {
      if (!(error instanceof LdapError)) throw error;
      throw new LdapError(error.result, `change ${step.record.number} cannot be undone: ${error.message}`);
    }
  }
}

/** Returns the steps of the changes, the newest first. */
async function requireUndoable(
  directory: ChangedDirectory,
  numbers: readonly bigint[],
  onHidden: Parameters<typeof undoChanges>[4],
): Promise<ChangeStep[]> {
  const records = new Map<bigint, NumberedChange>();
  for (const number of numbers) {
    const row = await directory.store.get(CHANGES_TABLE.name, numberKey(number));
    if (!row) throw new LdapError('noSuchObject', `change ${number} is not kept; see "rowan changes"`);
    records.set(number, { ...changeRecord(row), number });
  }
  const ids = [...new Map([...records.values()].map(({ id }) => [id.toString('latin1'), id])).values()];
  const rows = await FormerRows.open(directory.store, Math.min(...[...records.values()].map(timeMs)) - 1, ids);
  const chosen: ChangeStep[] = [];
  const reasons: string[] = [];
  for (const id of ids) {
    const later: NumberedChange[] = [];
    for await (const step of (await rows.stepsOf(id)).steps) {
      if (!records.has(step.record.number)) later.push(step.record);
      else {
        chosen.push(step);
        reasons.push(...reasonsAgainst(directory, step, later, onHidden));
      }
    }
  }
  if (chosen.length < records.size) reasons.push('an entry is being changed; try again');
  if (reasons.length > 0) throw new LdapError('unwillingToPerform', reasons.join('\n'));
  return chosen.sort((a, b) => (a.record.number < b.record.number ? 1 : -1));
}

/** `later`: the later changes of the entry that are not undone. */
function reasonsAgainst(
  context: ChangeContext,
  step: ChangeStep,
  later: readonly NumberedChange[],
  onHidden: Parameters<typeof undoChanges>[4],
): string[] {
  const { op, number } = step.record;
  const inTheWay = later.filter((record) => isInTheWay(context.schema, step.record, record));
  const reasons = inTheWay.map((record) => `change ${record.number} (${record.op}) of the entry came later`);
  if (op !== 'add' && op !== 'restore') {
    if (!step.before) reasons.push('the entry was deleted and is purged');
    else if (onHidden) for (const text of hiddenValues(context, step)) onHidden(step.record, text);
    else reasons.push(...hiddenValues(context, step).map((text) => `former values are not kept: ${text}`));
  }
  return reasons.map((reason) => `change ${number} cannot be undone: ${reason}`);
}

function isInTheWay(schema: Schema, { op, attributes = [] }: NumberedChange, later: NumberedChange): boolean {
  const isEdit = (name: NumberedChange['op']): boolean => name === 'modify' || name === 'rename';
  if (!isEdit(op) || !isEdit(later.op) || (op === 'rename' && later.op === 'rename')) return true;
  const isShared = (name: string) => later.attributes?.includes(name) && !schema.attribute(name)?.noUserModification;
  return attributes.some(isShared);
}

async function undo(
  directory: ChangedDirectory,
  { record: { id, op }, before, after }: ChangeStep,
  actor: Actor,
): Promise<EntryChange[]> {
  if (op === 'delete') {
    const dn = await directory.restore(id, actor);
    return changesBetween(directory, undefined, { dn, row: before! });
  }
  const [entry, parent] = [await directory.readById(id), before && (await directory.readById(parentIdOf(before)))];
  if (!entry || (op === 'rename' && !parent))
    throw new LdapError('noSuchObject', 'the entry, or its former parent, is not there any more');
  const { dn } = entry;
  const to = before && { dn: op === 'rename' ? `${upRdnOf(before).toString()},${parent!.dn}` : dn, row: before };
  const writes = changesBetween(directory, { dn, row: after ?? EMPTY }, to);
  const options = { manageDsaIT: true };
  for (const write of writes) {
    const name = directory.schema.parseDn(write.dn);
    if (write.kind === 'modrdn') await directory.rename(name, write, actor, options);
    else if (write.kind === 'modify') await directory.modify(name, write.changes, actor, options);
    else await directory.delete(name, actor, options);
  }
  return writes;
}
