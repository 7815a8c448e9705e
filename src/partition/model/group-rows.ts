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

/** Step of the plan that creates a directory: no value has a UID after its DN. */
export const NO_GROUPS_STEP: RowStep = {
  table: META_TABLE.name,
  key: GROUPS_KEY,
  put: [{ ...UIDS, value: counterBytes(0n) }],
};

/**
 * Plan step that records a possible change of group membership. It only adds and guards nothing, so plans do not wait
 * for each other at this row: over HBase each front end holds the row shared, and folds the additions of its plans.
 */
export const GROUPS_STEP: RowStep = { table: META_TABLE.name, key: GROUPS_KEY, add: [{ ...CHANGES, by: 1n }] };

/** Like `GROUPS_STEP`, for a change in which a member may have a UID. */
export const UID_STEP: RowStep = { ...GROUPS_STEP, add: [...GROUPS_STEP.add!, { ...UIDS, by: 1n }] };

export function groupChanges(row: Buffer | undefined): bigint {
  return cellCounter(row, CHANGES.family, CHANGES.qualifier);
}

/** True if a value may have a UID after its DN. Directories of older versions have no counter and return true. */
export function mayHaveUids(row: Buffer | undefined): boolean {
  const counted = row && cellValue(row, UIDS.family, UIDS.qualifier);
  return !counted || counted.readBigInt64BE() > 0n;
}

/** distinguishedNameMatch: the normal form of a value is that of the DN. */
export const DN_MATCH = '2.5.13.1';
/** uniqueMemberMatch: the normal form of a value is that of the DN, followed by the UID, if any. */
export const UNIQUE_MEMBER_MATCH = '2.5.13.23';

/** True if the values of the type are DNs, with or without a UID. */
export function namesEntries({ equality }: AttributeType): boolean {
  return equality?.oid === DN_MATCH || equality?.oid === UNIQUE_MEMBER_MATCH;
}

export function withoutUid({ equality }: AttributeType, value: Buffer): Buffer {
  const hash = equality?.oid === UNIQUE_MEMBER_MATCH ? uidStart(value) : -1;
  return hash < 0 ? value : value.subarray(0, hash);
}

const MEMBER = '2.5.4.31';
/** OID of groupOfURLs, the class of dynamic groups. */
const GROUP_OF_URLS = '2.16.840.1.113730.3.2.33';

/** Attributes that make an entry a group. */
export interface GroupTypes {
  /** member, uniqueMember and their subtypes, whose values name members. */
  readonly members: readonly AttributeType[];
  /** The attribute member, under which the members of a dynamic group are returned. */
  readonly member: AttributeType | undefined;
  /** memberURL and its subtypes. Members are the entries that the URL selects. */
  readonly urls: ReadonlySet<AttributeType>;
  /** Normal form of the object class of dynamic groups. Undefined if the schema does not define it. */
  readonly dynamic: Buffer | undefined;
  /** `members` and `urls` together. */
  readonly all: ReadonlySet<AttributeType>;
}

const known = new WeakMap<Schema, GroupTypes>();

export function groupTypes(schema: Schema): GroupTypes {
  const before = known.get(schema);
  if (before) return before;
  const named = (name: string): readonly AttributeType[] => schema.attribute(name)?.subtypes ?? [];
  const members = [...named(MEMBER), ...named('2.5.4.50')].filter(namesEntries);
  const urls = new Set(named('2.16.840.1.113730.3.1.198'));
  const dynamic = schema.requireDescription('objectClass').type.equality!.normalize(Buffer.from(GROUP_OF_URLS));
  const types = { members, member: schema.attribute(MEMBER), urls, dynamic, all: new Set([...members, ...urls]) };
  known.set(schema, types);
  return types;
}
