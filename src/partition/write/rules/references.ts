import type { Maybe, PlanStep } from '../../../store/contract.js';
import { chain } from '../../../store/maybe.js';
import { cellCounter, cellValue, EMPTY } from '../../../store/row.js';
import type { Draft, DraftAttribute, DraftValue } from '../../model/draft.js';
import { GROUPS_STEP, withoutUid } from '../../model/group-rows.js';
import type { NameChange } from '../../model/name-changes.js';
import { presentRow, valueNormText } from '../../model/present-row.js';
import { deferredReferences, restoredStep, type SavedReference, savedReferences } from '../../model/reference-rows.js';
import { DELETED, DELETION, MASTER_TABLE, Q, TREE } from '../../model/tables.js';
import { nodeNormText } from '../../tree/nodes.js';
import { type Change, PendingNamesError, type Rule, type Verdict, type WriteContext } from '../context.js';
import { saveSteps } from '../deleted-rows.js';
import { isRequiredType, removePlaceholder } from '../modify.js';

/** The most pending changes of names. Further changes wait. */
const MAX_PENDING = 64;

/**
 * Keeps references consistent with the names of entries. The plan that renames or deletes a referenced entry records
 * the change in the shared row. From then on readers see the references with the new name, and `References` updates the
 * stored values. Until that is done, no write may take the old name or refer to it.
 */
export const REFERENCES: Rule = {
  name: 'references',

  checkChange(context, change) {
    const { op, obstacle } = change;
    if (obstacle) return undefined;
    requireSettledNames(context, change);
    if (op === 'restore') return restoreReferences(context, change);
    if (op === 'delete' || op === 'rename') return recordNameChange(context, change);
    return undefined;
  },
};

/** Throws `PendingNamesError` if the write depends on a name with a pending change. */
function requireSettledNames(context: WriteContext, { op, id, before, after, place: { from, to } }: Change): void {
  const { nameChanges: names, references } = context.shared;
  if (names.records.length === 0) return;
  if (to && to !== from && names.includesNormText(nodeNormText(context, to))) throw new PendingNamesError();
  if (op === 'delete' && names.records.some((record) => record.restored && record.id === id.toString('hex')))
    throw new PendingNamesError();
  if (op === 'delete' && presentRow(context, before!.row) !== before!.row) throw new PendingNamesError();
  if (op !== 'add') return;
  for (const { description, values } of after!.attributes)
    if (
      references.has(description.type) &&
      values.some(({ bytes }) => names.includesNormText(valueNormText(description.type, bytes)))
    )
      throw new PendingNamesError();
}

/** Records the change of the name of a deleted or renamed entry. */
function recordNameChange(context: WriteContext, { id, place, tree }: Change): Maybe<Verdict> {
  const { shared, references } = context;
  if (shared.references.size === 0) return undefined;
  const dnBefore = place.from!.dn;
  const normBefore = nodeNormText(context, place.from!);
  if (place.to && nodeNormText(context, place.to) === normBefore) return undefined;
  const hasChildren = place.to !== undefined && cellCounter(place.treeRow, TREE.treeInfo, Q.oneLevelCount) > 0n;
  return chain(
    hasChildren || (tree?.areReferenced !== false && references.areReferenced([normBefore])),
    (isNamed): Verdict => {
      if (!isNamed) return undefined;
      const pendingCount = shared.nameChanges.records.length + (tree?.nameChanges.length ?? 0);
      if (pendingCount >= MAX_PENDING) throw new PendingNamesError();
      const record: NameChange = {
        id: id.toString('hex'),
        from: dnBefore.toString(),
        time: Date.now(),
        ...(place.to && { to: place.to.dn.toString() }),
        ...(hasChildren && { below: true }),
      };
      if (!tree) return { steps: [shared.nameChangesStep([...shared.nameChanges.records, record]), GROUPS_STEP] };
      tree.nameChanges.push(record);
      return { steps: [GROUPS_STEP] };
    },
  );
}

/** Restores references to the entry, and updates references in the entry to current names. */
async function restoreReferences(context: WriteContext, change: Change): Promise<Verdict> {
  const { shared } = context;
  const id = change.id.toString('hex');
  const row = change.deletedRow!.row!;
  const recordsBefore = shared.nameChanges.records;
  const records = recordsBefore.filter((record) => record.id !== id || record.to !== undefined);
  const references = savedReferences(row);
  const steps: PlanStep[] = [];
  if (references.length > 0) {
    records.push({ id, from: change.place.to!.dn.toString(), time: Date.now(), restored: true });
    steps.push(restoredStep(change.id, references));
  }
  if (records.length !== recordsBefore.length || references.length > 0)
    steps.push(shared.nameChangesStep(records), GROUPS_STEP);
  const entryUpdate = await updateEntryReferences(context, change);
  return { steps: [...steps, ...entryUpdate.steps], amend: entryUpdate.amend };
}

/** Updates references in a restored entry by changes of names since the deletion, and adds the saved ones. */
async function updateEntryReferences(
  context: WriteContext,
  { id, after, deletedRow }: Change,
): Promise<{ steps: PlanStep[]; amend: (draft: Draft) => void }> {
  const { references } = context.shared;
  const row = deletedRow!.row!;
  const steps: PlanStep[] = [];
  const amendedValues = new Map<DraftAttribute, DraftValue[]>();
  const attributes = after!.attributes.filter(({ description: { type } }) => references.has(type));
  const time = cellValue(row, DELETED.deletion, DELETION.time)!;
  const changes = attributes.length > 0 ? await context.references.changesSince(id, time) : undefined;
  for (const attribute of changes?.isEmpty === false ? attributes : []) {
    const { type } = attribute.description;
    const values: DraftValue[] = [];
    // Two references can end up with the same name, if an entry has taken a former name.
    const seenForms = new Set<string>();
    for (const value of attribute.values) {
      const currentBytes = changes!.includesNormText(valueNormText(type, value.bytes))
        ? changes!.currentValue(type, value.bytes)
        : value.bytes;
      const uid = value.bytes.subarray(withoutUid(type, value.bytes).length);
      if (Buffer.isBuffer(currentBytes)) {
        const normText = valueNormText(type, currentBytes);
        if (!seenForms.has(normText))
          values.push(currentBytes === value.bytes ? value : { ...value, bytes: currentBytes });
        seenForms.add(normText);
      } else
        steps.push(
          ...(await saveSteps(context, Buffer.from(currentBytes.id, 'hex'), { id, description: attribute.text, uid })),
        );
    }
    amendedValues.set(attribute, values);
  }
  const restoredValues = await resolveReferences(context, id, deferredReferences(row), steps);
  const amend = (draft: Draft): void => {
    for (const [{ description, text, values: oldValues }, values] of amendedValues) {
      const attribute = draft.get(description);
      if (!attribute || (values.length === oldValues.length && values.every((value, n) => value === oldValues[n])))
        continue;
      if (values.length > 0) draft.set({ ...attribute, values });
      else if (isRequiredType(context, draft, description.type)) draft.replace(description, text, [EMPTY]);
      else draft.remove(description);
    }
    for (const { description: text, value } of restoredValues) addReference(context, draft, text, value);
  };
  return { steps, amend };
}

/** Returns those saved references whose entries exist. Saves the others in the rows of the deleted entries. */
async function resolveReferences(
  context: WriteContext,
  id: Buffer,
  references: readonly SavedReference[],
  steps: PlanStep[],
): Promise<{ readonly description: string; readonly value: Buffer }[]> {
  const values: { description: string; value: Buffer }[] = [];
  for (const { id: targetId, description, uid } of references) {
    const row = await context.store.getHead(MASTER_TABLE.name, targetId, true);
    const node = row && (await context.nodes.byId(targetId));
    if (node) values.push({ description, value: Buffer.concat([node.dn, uid]) });
    else steps.push(...(await saveSteps(context, targetId, { id, description, uid })));
  }
  return values;
}

/** Adds a reference unless the entry has it. Removes the empty DN, the placeholder of a required attribute. */
function addReference({ schema }: WriteContext, draft: Draft, text: string, value: Buffer): void {
  const description = schema.requireDescription(text);
  const { type } = description;
  const attribute = draft.get(description);
  if (attribute?.values.some(({ bytes }) => valueNormText(type, bytes) === valueNormText(type, value))) return;
  draft.append(description, text, [value]);
  removePlaceholder(draft, description);
}
