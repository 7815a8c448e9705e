import { LdapError } from '../../ldap/ldap-error.js';
import type { EntryChange, Modification } from '../../ldap/ldap-types.js';
import type { AttributeType, Ava, Dn } from '../../schema/schema-types.js';
import { EMPTY, unpackRow } from '../../store/row.js';
import { recordsBack, timeMs } from '../feed/change-reader.js';
import { decodeBefore } from '../model/before-image.js';
import { INDEX_BYTES } from '../model/descriptions.js';
import { CHANGES_TABLE, largeQualifiers, MASTER, parentIdOf, ROOT_ID, upRdnOf } from '../model/tables.js';
import type { SearchContext } from '../read/run/search-context.js';
import { joinDn } from '../tree/nodes.js';
import { type ChangeStep, FormerRows, shownRow } from './former-rows.js';

export type ChangeContext = Pick<SearchContext, 'store' | 'schema' | 'descriptions'>;

/** An entry at a moment: its DN and its packed master row. */
export type FormerEntry = { readonly dn: string; readonly row: Buffer };

interface StoredValue {
  /** Attribute description as stored. */
  readonly text: string;
  readonly type: AttributeType;
  readonly value: Buffer;
}

function valuesIn({ descriptions }: ChangeContext, row: Buffer): StoredValue[] {
  const cells = unpackRow(row).filter(({ family }) => family === MASTER.upAttributes);
  return cells.map(({ qualifier, value }) => {
    const { text, description } = descriptions.intern(qualifier, 0, qualifier.length - INDEX_BYTES);
    return { text, type: description.type, value };
  });
}

/** Returns the values of a former row, without secrets, values over 64 KiB, and what only the server writes. */
function shownValues(context: ChangeContext, row: Buffer): StoredValue[] {
  return valuesIn(context, shownRow(context.descriptions, row)).filter(({ type }) => !type.noUserModification);
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
    const attributes = newValues.map(({ text, value }) => ({ type: text, values: [value] }));
    return [{ kind: 'add', dn: to.dn, attributes }];
  }
  const isMoved = !parentIdOf(from.row).equals(parentIdOf(to.row));
  let values = shownValues(context, from.row);
  if (!isMoved && upRdnOf(from.row).equals(upRdnOf(to.row))) return modifyOf(from.dn, values, newValues);
  const [newRdn, ...parents] = context.schema.parseDn(to.dn).rdns;
  const oldAvas = context.schema.parseDn(from.dn).rdns[0]!.avas;
  const deleteOldRdn = oldAvas.some((ava) => !newValues.some(isValueOf(ava)));
  const newSuperior = isMoved ? parents.map(({ text }) => text).join(',') : undefined;
  // The rename itself removes and adds values.
  if (deleteOldRdn) values = values.filter((value) => !oldAvas.some((ava) => isValueOf(ava)(value)));
  for (const ava of newRdn!.avas) if (!values.some(isValueOf(ava))) values.push(...newValues.filter(isValueOf(ava)));
  const rename = { dn: from.dn, newRdn: newRdn!.text, deleteOldRdn, newSuperior };
  return [{ kind: 'modrdn', ...rename }, ...modifyOf(to.dn, values, newValues)];
}

function isValueOf({ type, norm }: Ava): (value: StoredValue) => boolean {
  return (stored) => stored.type === type && type.equality?.normalize(stored.value)?.equals(norm) === true;
}

function modifyOf(dn: string, from: readonly StoredValue[], to: readonly StoredValue[]): EntryChange[] {
  const changes: Modification[] = [];
  for (const [text, type] of new Map([...from, ...to].map((value) => [value.text, value.type]))) {
    const valuesOf = (all: readonly StoredValue[]) => all.filter((one) => one.text === text).map(({ value }) => value);
    const [old, values] = [valuesOf(from), valuesOf(to)];
    const [removed, added] = [without(old, values), without(values, old)];
    // Without an equality rule, single values can neither be added nor deleted.
    const isReplaced = !type.equality && removed.length + added.length > 0;
    if (isReplaced) changes.push({ operation: 'replace', attribute: { type: text, values } });
    else if (removed.length > 0) changes.push({ operation: 'delete', attribute: { type: text, values: removed } });
    if (!isReplaced && added.length > 0) changes.push({ operation: 'add', attribute: { type: text, values: added } });
  }
  return changes.length > 0 ? [{ kind: 'modify', dn, changes }] : [];
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

/** Returns which changed attributes are not shown, such as `userPassword, secret`; none of a deletion. */
export function hiddenValues(context: ChangeContext, { record, before, after }: ChangeStep): string[] {
  const rows = [before ?? EMPTY, after ?? EMPTY];
  const longNames = rows.flatMap((row) => [...(largeQualifiers(row) ?? [])].map((name) => name.slice(0, -INDEX_BYTES)));
  const names = record.beforeImage
    ? decodeBefore(record.beforeImage).attributes.map(({ description }) => description)
    : valuesIn(context, after ?? EMPTY).map(({ text }) => text);
  const isSecret = (name: string) => context.schema.describe(name)?.type.secret;
  const hidden = [...new Set(names)].filter((name) => isSecret(name) || longNames.includes(name));
  return hidden.map((name) => `${name}, ${isSecret(name) ? 'secret' : 'long'}`);
}

/** Returns the entryUUID of the last entry that had a name, by the change records that are kept. */
export async function lastIdOf({ store, schema }: ChangeContext, { norm }: Dn): Promise<Buffer | undefined> {
  const rule = schema.rule('distinguishedNameMatch')!;
  const isNamed = (name: Buffer | undefined): boolean => !!name && rule.normalize(name)?.equals(norm) === true;
  for await (const { id, dn, newDn } of recordsBack(store, await store.settled(CHANGES_TABLE.name), 0n))
    if (isNamed(newDn) || isNamed(dn)) return Buffer.from(id);
  return undefined;
}

/**
 * Returns how an entry differs between two moments, milliseconds since 1970, and which changed values are not shown.
 * Throws as `FormerRows.open`, and `adminLimitExceeded` if the entry, or one above it, was deleted since and is purged.
 */
export async function differenceBetween(context: ChangeContext, id: Buffer, fromMs: number, toMs: number) {
  const [former, later] = [await FormerRows.open(context.store, fromMs), await FormerRows.open(context.store, toMs)];
  const changes = changesBetween(context, await entryAt(former, id), await entryAt(later, id));
  const hidden = new Set<string>();
  for await (const step of (await former.stepsOf(id)).steps)
    if (timeMs(step.record) <= toMs) for (const text of hiddenValues(context, step)) hidden.add(text);
  return { changes, hidden };
}

async function entryAt(rows: FormerRows, id: Buffer): Promise<FormerEntry | undefined> {
  const row = id.equals(ROOT_ID) ? undefined : await rows.rowOf(id);
  if (rows.lostNames.length > 0)
    throw new LdapError('adminLimitExceeded', 'the entry, or one above it, was deleted since and is purged');
  const parent = row && (await entryAt(rows, Buffer.from(parentIdOf(row))));
  return row && { row, dn: joinDn(upRdnOf(row), Buffer.from(parent?.dn ?? '')).toString() };
}
