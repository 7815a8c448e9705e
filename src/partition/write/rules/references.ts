import type { AttributeType } from '../../../schema/schema-types.js';
import type { Maybe, PlanStep } from '../../../store/contract.js';
import { chain } from '../../../store/maybe.js';
import { cellCounter, cellValue, EMPTY } from '../../../store/row.js';
import type { Draft, DraftAttribute, DraftValue } from '../../model/draft.js';
import { GROUPS_STEP, withoutUid } from '../../model/group-rows.js';
import type { NameChange } from '../../model/name-changes.js';
import { presentRow, valueNormText } from '../../model/present-row.js';
import { deferredReferences, restoredStep, type SavedReference, savedReferences } from '../../model/reference-rows.js';
import { DELETED, DELETION, MASTER_TABLE, Q, TREE } from '../../model/tables.js';
import { nodeNormText } from '../../tree/node-name.js';
import type { Change } from '../change.js';
import type { Rule, Verdict, WriteContext } from '../context.js';
import { saveSteps } from '../deleted-rows.js';
import { NamesPending } from '../names-pending.js';

/** Maximum number of pending changes of names. Further changes wait. */
const MAX_PENDING = 64;

/**
 * Keeps references up to date with the names of entries. The plan of a rename or deletion of a referenced entry records
 * the change of the name in the shared row. From then on readers see references under the new name, and `References`
 * updates the stored values. Meanwhile no write may take the old name or refer to it.
 */
export const REFERENCES: Rule = {
  name: 'references',

  checkChange(context, change) {
    const { op, obstacle } = change;
    if (obstacle) return undefined;
    requireNamesSettled(context, change);
    if (op === 'restore') return restored(context, change);
    if (op === 'delete' || op === 'rename') return changed(context, change);
    return undefined;
  },
};

/** Throws `NamesPending` where the write depends on a name with a pending change. */
function requireNamesSettled(context: WriteContext, { op, id, before, after, place: { from, to } }: Change): void {
  const { nameChanges: names, references } = context.shared;
  if (names.records.length === 0) return;
  if (to && to !== from && names.includesNormText(nodeNormText(context, to))) throw new NamesPending();
  if (op === 'delete' && names.records.some((record) => record.restored && record.id === id.toString('hex')))
    throw new NamesPending();
  if (op === 'delete' && presentRow(context, before!.row) !== before!.row) throw new NamesPending();
  if (op !== 'add') return;
  for (const { description, values } of after!.attributes)
    if (
      references.has(description.type) &&
      values.some(({ bytes }) => names.includesNormText(valueNormText(description.type, bytes)))
    )
      throw new NamesPending();
}

/** Records the change of the name of a deleted or renamed entry. */
function changed(context: WriteContext, { id, place }: Change): Maybe<Verdict> {
  const { shared, references } = context;
  if (shared.references.size === 0) return undefined;
  const from = place.from!.dn;
  const name = nodeNormText(context, place.from!);
  if (place.to && nodeNormText(context, place.to) === name) return undefined;
  const isAbove = place.to !== undefined && cellCounter(place.treeRow, TREE.treeInfo, Q.oneLevelCount) > 0n;
  return chain(isAbove || references.isReferenced(name), (isNamed): Verdict => {
    if (!isNamed) return undefined;
    if (shared.nameChanges.records.length >= MAX_PENDING) throw new NamesPending();
    const record: NameChange = {
      id: id.toString('hex'),
      from: from.toString(),
      time: Date.now(),
      ...(place.to && { to: place.to.dn.toString() }),
      ...(isAbove && { below: true }),
    };
    return { steps: [shared.nameChangesStep([...shared.nameChanges.records, record]), GROUPS_STEP] };
  });
}

/** Restores the references to the entry, and updates the references of the entry to current names. */
async function restored(context: WriteContext, change: Change): Promise<Verdict> {
  const { shared } = context;
  const id = change.id.toString('hex');
  const row = change.deletedRow!.row!;
  const known = shared.nameChanges.records;
  const records = known.filter((record) => record.id !== id || record.to !== undefined);
  const saved = savedReferences(row);
  const steps: PlanStep[] = [];
  if (saved.length > 0) {
    records.push({ id, from: change.place.to!.dn.toString(), time: Date.now(), restored: true });
    steps.push(restoredStep(change.id, saved));
  }
  if (records.length !== known.length || saved.length > 0) steps.push(shared.nameChangesStep(records), GROUPS_STEP);
  const own = await updateOwnReferences(context, change);
  return { steps: [...steps, ...own.steps], amend: own.amend };
}

/**
 * Updates the references of a restored entry by the changes of names since the deletion, and adds the references that
 * were saved in its row.
 */
async function updateOwnReferences(
  context: WriteContext,
  { id, after, deletedRow }: Change,
): Promise<{ steps: PlanStep[]; amend: (draft: Draft) => void }> {
  const { references } = context.shared;
  const row = deletedRow!.row!;
  const steps: PlanStep[] = [];
  const amended = new Map<DraftAttribute, DraftValue[]>();
  const attributes = after!.attributes.filter(({ description: { type } }) => references.has(type));
  const time = cellValue(row, DELETED.deletion, DELETION.time)!;
  const names = attributes.length > 0 ? await context.references.changesSince(id, time) : undefined;
  for (const attribute of names?.isEmpty === false ? attributes : []) {
    const { type } = attribute.description;
    const kept: DraftValue[] = [];
    // A name that no entry had may by now be the name of an entry that another value refers to.
    const forms = new Set<string>();
    for (const value of attribute.values) {
      const present = names!.includesNormText(valueNormText(type, value.bytes))
        ? names!.currentValue(type, value.bytes)
        : value.bytes;
      const uid = value.bytes.subarray(withoutUid(type, value.bytes).length);
      if (Buffer.isBuffer(present)) {
        const form = valueNormText(type, present);
        if (!forms.has(form)) kept.push(present === value.bytes ? value : { ...value, bytes: present });
        forms.add(form);
      } else
        steps.push(
          ...(await saveSteps(context, Buffer.from(present.id, 'hex'), { id, description: attribute.text, uid })),
        );
    }
    amended.set(attribute, kept);
  }
  const owed = await owedValues(context, id, deferredReferences(row), steps);
  const amend = (draft: Draft): void => {
    for (const [{ description, text, values: stored }, values] of amended) {
      const known = draft.get(description);
      if (!known || (values.length === stored.length && values.every((value, n) => value === stored[n]))) continue;
      if (values.length > 0) draft.set({ ...known, values });
      else if (isRequired(context, draft, description.type)) draft.replace(description, text, [EMPTY]);
      else draft.remove(description);
    }
    for (const { description: text, value } of owed) addValue(context, draft, text, value);
  };
  return { steps, amend };
}

/** Returns the saved references whose entries exist. Saves the others in the rows of the deleted entries. */
async function owedValues(
  context: WriteContext,
  id: Buffer,
  owed: readonly SavedReference[],
  steps: PlanStep[],
): Promise<{ readonly description: string; readonly value: Buffer }[]> {
  const values: { description: string; value: Buffer }[] = [];
  for (const { id: named, description, uid } of owed) {
    const row = await context.store.getHead(MASTER_TABLE.name, named, true);
    const node = row && (await context.nodes.byId(named));
    if (node) values.push({ description, value: Buffer.concat([node.dn, uid]) });
    else steps.push(...(await saveSteps(context, named, { id, description, uid })));
  }
  return values;
}

/** Adds a reference unless the entry has it. Removes the empty DN, the placeholder for a required attribute. */
function addValue({ schema }: WriteContext, draft: Draft, text: string, value: Buffer): void {
  const description = schema.requireDescription(text);
  const { type } = description;
  const known = draft.get(description);
  if (known?.values.some(({ bytes }) => valueNormText(type, bytes) === valueNormText(type, value))) return;
  if (known?.values.some(({ bytes }) => bytes.length === 0)) {
    const values = known.values.filter(({ bytes }) => bytes.length > 0);
    if (values.length > 0) draft.set({ ...known, values });
    else draft.remove(description);
  }
  draft.append(description, text, [value]);
}

function isRequired({ schema }: WriteContext, draft: Draft, type: AttributeType): boolean {
  const classes = draft.get(schema.requireDescription('objectClass'))?.values ?? [];
  return classes.some(({ bytes }) => schema.objectClass(bytes.toString('latin1'))?.must.has(type));
}
