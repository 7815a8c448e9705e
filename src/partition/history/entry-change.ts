import type { Modification, PartialAttribute } from '../../ldap/ldap-types.js';
import type { Schema } from '../../schema/schema.js';
import type { Ava, Dn } from '../../schema/schema-types.js';
import type { Cell, Store } from '../../store/contract.js';
import { EMPTY, unpackRow } from '../../store/row.js';
import { recordsBack } from '../feed/change-reader.js';
import { decodeBefore } from '../model/before-image.js';
import { type DescriptionTable, INDEX_BYTES } from '../model/descriptions.js';
import { valueQualifier } from '../model/entry-cells.js';
import { CHANGES_TABLE, largeQualifiers, MASTER, parentIdOf, upRdnOf } from '../model/tables.js';
import { type ChangeStep, shownRow } from './former-rows.js';

/** A change of an entry, in the shape of an LDIF change record (RFC 2849). */
export type EntryChange = { readonly dn: string } & (
  | { readonly kind: 'add'; readonly attributes: readonly PartialAttribute[] }
  | { readonly kind: 'delete' }
  | { readonly kind: 'modify'; readonly changes: readonly Modification[] }
  | {
      readonly kind: 'modrdn';
      readonly newRdn: string;
      readonly deleteOldRdn: boolean;
      readonly newSuperior: string | undefined;
    }
);

/** An entry at a moment: its DN and its packed master row. */
export interface FormerEntry {
  readonly dn: string;
  readonly row: Buffer;
}

export interface ChangeContext {
  readonly store: Store;
  readonly schema: Schema;
  readonly descriptions: DescriptionTable;
}

/** A value with its attribute description, as stored. */
interface StoredValue {
  readonly type: string;
  readonly value: Buffer;
}

function valueCells(row: Buffer): Cell[] {
  return unpackRow(row).filter(({ family }) => family === MASTER.upAttributes);
}

/** Returns the values of a former row, without secrets, values over 64 KiB, and what only the server writes. */
function shownValues({ descriptions }: ChangeContext, row: Buffer): StoredValue[] {
  return valueCells(shownRow(descriptions, row)).flatMap(({ qualifier, value }) => {
    const { text, description } = descriptions.intern(qualifier, 0, qualifier.length - INDEX_BYTES);
    return description.type.noUserModification ? [] : [{ type: text, value }];
  });
}

/** Returns the changes that make the entry `to` of the entry `from`; undefined: the entry is not there. */
export function changesBetween(
  context: ChangeContext,
  from: FormerEntry | undefined,
  to: FormerEntry | undefined,
): EntryChange[] {
  if (!to) return from ? [{ kind: 'delete', dn: from.dn }] : [];
  const newValues = shownValues(context, to.row);
  if (!from) {
    const attributes = newValues.map(({ type, value }) => ({ type, values: [value] }));
    return [{ kind: 'add', dn: to.dn, attributes }];
  }
  const { schema } = context;
  let values = shownValues(context, from.row);
  const changes: EntryChange[] = [];
  const isMoved = !parentIdOf(from.row).equals(parentIdOf(to.row));
  const isRenamed = isMoved || !upRdnOf(from.row).equals(upRdnOf(to.row));
  if (isRenamed) {
    const [newRdn, ...parents] = schema.parseDn(to.dn).rdns;
    const oldAvas = schema.parseDn(from.dn).rdns[0]!.avas;
    const deleteOldRdn = oldAvas.some((ava) => !newValues.some((value) => isValueOf(schema, value, ava)));
    const newSuperior = isMoved ? parents.map(({ text }) => text).join(',') : undefined;
    changes.push({ kind: 'modrdn', dn: from.dn, newRdn: newRdn!.text, deleteOldRdn, newSuperior });
    // The rename itself removes and adds values.
    if (deleteOldRdn) values = values.filter((value) => !oldAvas.some((ava) => isValueOf(schema, value, ava)));
    for (const ava of newRdn!.avas)
      if (!values.some((value) => isValueOf(schema, value, ava)))
        values.push(...newValues.filter((value) => isValueOf(schema, value, ava)));
  }
  const modifications = modificationsBetween(schema, values, newValues);
  if (modifications.length > 0)
    changes.push({ kind: 'modify', dn: isRenamed ? to.dn : from.dn, changes: modifications });
  return changes;
}

function isValueOf(schema: Schema, { type: text, value }: StoredValue, { type, norm }: Ava): boolean {
  return schema.describe(text)?.type === type && type.equality?.normalize(value)?.equals(norm) === true;
}

function modificationsBetween(schema: Schema, from: readonly StoredValue[], to: readonly StoredValue[]) {
  const changes: Modification[] = [];
  for (const type of new Set([...from, ...to].map((value) => value.type))) {
    const [old, values] = [from, to].map((all) => all.filter((value) => value.type === type).map(({ value }) => value));
    const [removed, added] = [without(old!, values!), without(values!, old!)];
    // Without an equality rule, single values can neither be added nor deleted.
    const hasEquality = schema.requireDescription(type).type.equality !== undefined;
    if (!hasEquality && removed.length + added.length > 0)
      changes.push({ operation: 'replace', attribute: { type, values: values! } });
    if (hasEquality && removed.length > 0) changes.push({ operation: 'delete', attribute: { type, values: removed } });
    if (hasEquality && added.length > 0) changes.push({ operation: 'add', attribute: { type, values: added } });
  }
  return changes;
}

function without(values: readonly Buffer[], others: readonly Buffer[]): Buffer[] {
  const texts = new Set(others.map((value) => value.toString('latin1')));
  return values.filter((value) => !texts.has(value.toString('latin1')));
}

/** Returns what a change did; nothing, where it changed only what the server writes, or its values are purged. */
export function changesOf(context: ChangeContext, { record, before, after }: ChangeStep): EntryChange[] {
  const dn = record.dn.toString();
  if (record.op === 'delete') return [{ kind: 'delete', dn }];
  const newDn = record.newDn?.toString() ?? dn;
  return changesBetween(context, before && { dn, row: before }, after && { dn: newDn, row: after });
}

/** Returns which changed values are not shown, such as `userPassword, secret`. Former ones of them are not kept. */
export function hiddenValues({ descriptions }: ChangeContext, { record, before, after }: ChangeStep): string[] {
  const row = after ?? before ?? EMPTY;
  const large = largeQualifiers(row);
  const changed = record.beforeImage
    ? decodeBefore(record.beforeImage).attributes
    : valueCells(row).map(({ qualifier }) => {
        const { text, description } = descriptions.intern(qualifier, 0, qualifier.length - INDEX_BYTES);
        const index = qualifier.readUInt32BE(qualifier.length - INDEX_BYTES);
        return { description: text, isSecret: description.type.secret, old: [], added: [index] };
      });
  const hidden = changed.flatMap(({ description, isSecret, old, added }) => {
    const isLarge = (index: number) => large?.has(valueQualifier(description, index).toString('latin1'));
    const isLong = old.some((value) => value.isLarge) || added.some(isLarge);
    return isSecret || isLong ? [`${description}, ${isSecret ? 'secret' : 'long'}`] : [];
  });
  return [...new Set(hidden)];
}

/** Returns the entryUUID of the last entry that had a name, by the change records that are kept. */
export async function lastIdOf({ store, schema }: ChangeContext, { norm }: Dn): Promise<Buffer | undefined> {
  const rule = schema.rule('distinguishedNameMatch')!;
  const isNamed = (name: Buffer | undefined): boolean => !!name && rule.normalize(name)?.equals(norm) === true;
  for await (const { id, dn, newDn } of recordsBack(store, await store.settled(CHANGES_TABLE.name), 0n))
    if (isNamed(newDn) || isNamed(dn)) return Buffer.from(id);
  return undefined;
}
