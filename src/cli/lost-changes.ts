import type { Modification } from '../ldap/ldap-types.js';
import { formatChange, formatComment, formatEntry, VERSION_LINE } from '../ldif/index.js';
import type { Partition } from '../partition/index.js';
import { type ChangeRecord, changeRecord } from '../partition/model/change-record.js';
import type { Entry } from '../partition/model/directory-types.js';
import { CHANGES_TABLE } from '../partition/model/tables.js';
import type { OutputStream } from './export/output.js';

/** What happened to one entry. */
interface Fate {
  /** Places of the last such records in the list; -1: there is none. */
  added: number;
  deleted: number;
  /** Names of the changed attributes. */
  readonly attributes: Set<string>;
}

/**
 * Writes changes as LDIF that an import applies to a directory that lacks them. Added and changed entries have the
 * values that they have now: entries that are gone again are left out. `keys`: of change records, in order.
 */
export async function writeLostChanges(
  partition: Partition,
  keys: readonly Buffer[],
  comment: string,
  output: OutputStream,
): Promise<void> {
  const records: ChangeRecord[] = [];
  for (const key of keys) {
    const row = await partition.store.get(CHANGES_TABLE.name, key);
    if (row) records.push(changeRecord(row));
  }
  const fates = fatesOf(records);
  await output.write(Buffer.concat([VERSION_LINE, formatComment(comment), Buffer.from('\n')]));
  for (const [i, record] of records.entries()) {
    const { added, deleted } = fates.get(record.id.toString('hex'))!;
    const text = await structureChange(partition, record, { isGone: deleted > i, isOwn: added >= 0 && added <= i });
    if (text) await output.write(text);
  }
  for (const [id, { added, attributes }] of fates) {
    const entry = added < 0 ? await partition.readById(Buffer.from(id, 'hex'), true) : undefined;
    const changes = entry ? replacements(partition, entry, attributes) : [];
    if (changes.length > 0) await output.write(formatChange({ kind: 'modify', dn: entry!.dn, changes }));
  }
  await output.end();
}

function fatesOf(records: readonly ChangeRecord[]): Map<string, Fate> {
  const fates = new Map<string, Fate>();
  for (const [i, { id, op, writerDn, attributes = [] }] of records.entries()) {
    const key = id.toString('hex');
    const fate = fates.get(key) ?? { added: -1, deleted: -1, attributes: new Set<string>() };
    fates.set(key, fate);
    if (op === 'add' || op === 'restore') fate.added = i;
    if (op === 'delete') fate.deleted = i;
    // What the server itself changes follows from other changes.
    if (writerDn !== '') for (const name of attributes) fate.attributes.add(name);
  }
  return fates;
}

/** Returns an add, a delete or a rename as LDIF; undefined for other changes, and of an entry that came and went. */
async function structureChange(
  partition: Partition,
  { op, id, dn, newDn }: ChangeRecord,
  { isGone, isOwn }: { readonly isGone: boolean; readonly isOwn: boolean },
): Promise<Buffer | undefined> {
  if (isOwn && isGone) return undefined;
  if (op === 'delete') return isOwn ? undefined : formatChange({ kind: 'delete', dn: dn.toString() });
  if (op === 'modify') return undefined;
  const entry = await partition.readById(id, true);
  const [rdn] = partition.schema.parseDn(dn.toString()).rdns;
  const lacking = rdn!.avas.filter(({ type, value }) => !valuesOf(entry, type.name).some((one) => one.equals(value)));
  if (op === 'rename') {
    const [newRdn, ...parents] = partition.schema.parseDn(newDn!.toString()).rdns;
    const newSuperior = parents.map(({ text }) => text).join(',');
    const names = { newRdn: newRdn!.text, deleteOldRdn: lacking.length > 0, newSuperior };
    return formatChange({ kind: 'modrdn', dn: dn.toString(), ...names });
  }
  const attributes = (entry?.attributes ?? []).map(({ description, values }) => ({ type: description, values }));
  return formatEntry(dn.toString(), [
    ...attributes,
    ...lacking.map(({ type, value }) => ({ type: type.name, values: [value] })),
  ]);
}

function valuesOf(entry: Entry | undefined, name: string): readonly Buffer[] {
  return entry?.attributes.flatMap(({ type, values }) => (type.name === name ? values : [])) ?? [];
}

/** Returns modifications that give the attributes the values that the entry has now. */
function replacements({ schema }: Partition, entry: Entry, names: ReadonlySet<string>): Modification[] {
  const changes: Modification[] = [];
  for (const name of names) {
    if (schema.describe(name)?.type.noUserModification) continue;
    const found = entry.attributes.filter(({ type }) => type.name === name);
    for (const { description, values } of found.length > 0 ? found : [{ description: name, values: [] }])
      changes.push({ operation: 'replace', attribute: { type: description, values } });
  }
  return changes;
}
