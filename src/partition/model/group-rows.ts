import type { Schema } from '../../schema/schema.js';
import type { AttributeType } from '../../schema/schema-types.js';
import { uidStart } from '../../schema/syntaxes.js';
import type { RowStep } from '../../store/contract.js';
import { cellCounter, cellValue, counterBytes } from '../../store/row.js';
import { META_TABLE } from './tables.js';

/** Key of the row of table `meta` that counts changes of group membership (docs/formats/tables.md). */
export const GROUPS_KEY = Buffer.from('groups');
const CHANGES = { family: 0, qualifier: Buffer.from('changes') };
const UIDS = { family: 0, qualifier: Buffer.from('uids') };

/** Step of the plan that creates a directory. Records that no value has a UID after its DN. */
export const NO_GROUPS_STEP: RowStep = {
  table: META_TABLE.name,
  key: GROUPS_KEY,
  put: [{ ...UIDS, value: counterBytes(0n) }],
};

/**
 * Step that records a possible change of group membership. It only increments and guards nothing, so that plans do not
 * wait for each other. Over HBase, each front end holds the row shared and folds the increments of its plans.
 */
export const GROUPS_STEP: RowStep = { table: META_TABLE.name, key: GROUPS_KEY, add: [{ ...CHANGES, by: 1n }] };

/** Like `GROUPS_STEP`, for a change in which a member may have a UID. */
export const UID_STEP: RowStep = { ...GROUPS_STEP, add: [...GROUPS_STEP.add!, { ...UIDS, by: 1n }] };

export function groupChanges(row: Buffer | undefined): bigint {
  return cellCounter(row, CHANGES.family, CHANGES.qualifier);
}

/** Whether a value may have a UID after its DN. True for directories of older versions, which lack the counter. */
export function mayHaveUids(row: Buffer | undefined): boolean {
  const uidCounter = row && cellValue(row, UIDS.family, UIDS.qualifier);
  return !uidCounter || uidCounter.readBigInt64BE() > 0n;
}

/** distinguishedNameMatch: the normal form of a value is that of the DN. */
export const DN_MATCH = '2.5.13.1';
/** uniqueMemberMatch: the normal form of a value is that of the DN, followed by the UID, if any. */
export const UNIQUE_MEMBER_MATCH = '2.5.13.23';

/** Whether the values of the type are DNs, with or without a UID. */
export function namesEntries({ equality }: AttributeType): boolean {
  return equality?.oid === DN_MATCH || equality?.oid === UNIQUE_MEMBER_MATCH;
}

export function withoutUid({ equality }: AttributeType, value: Buffer): Buffer {
  const uidOffset = equality?.oid === UNIQUE_MEMBER_MATCH ? uidStart(value) : -1;
  return uidOffset < 0 ? value : value.subarray(0, uidOffset);
}

const MEMBER = '2.5.4.31';
/** OID of groupOfURLs, the class of dynamic groups. */
const GROUP_OF_URLS = '2.16.840.1.113730.3.2.33';

/** Attributes that make an entry a group. */
export interface GroupTypes {
  /** member, uniqueMember and their subtypes. Their values name members. */
  readonly memberTypes: readonly AttributeType[];
  /** The attribute member, under which the members of a dynamic group are returned. */
  readonly member: AttributeType | undefined;
  /** memberURL and its subtypes. Their URLs select members. */
  readonly urlTypes: ReadonlySet<AttributeType>;
  /** Normal form of the name of the object class of dynamic groups; undefined if the schema does not define it. */
  readonly dynamicClass: Buffer | undefined;
  /** `memberTypes` and `urlTypes` together. */
  readonly allTypes: ReadonlySet<AttributeType>;
}

const groupTypesBySchema = new WeakMap<Schema, GroupTypes>();

export function groupTypes(schema: Schema): GroupTypes {
  const cached = groupTypesBySchema.get(schema);
  if (cached) return cached;
  const subtypesOf = (name: string): readonly AttributeType[] => schema.attribute(name)?.subtypes ?? [];
  const memberTypes = [...subtypesOf(MEMBER), ...subtypesOf('2.5.4.50')].filter(namesEntries);
  const urlTypes = new Set(subtypesOf('2.16.840.1.113730.3.1.198'));
  const dynamicClass = schema.requireDescription('objectClass').type.equality!.normalize(Buffer.from(GROUP_OF_URLS));
  const allTypes = new Set([...memberTypes, ...urlTypes]);
  const types = { memberTypes, member: schema.attribute(MEMBER), urlTypes, dynamicClass, allTypes };
  groupTypesBySchema.set(schema, types);
  return types;
}
