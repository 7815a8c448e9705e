import type { Schema } from '../../schema/schema.js';
import type { AttributeType } from '../../schema/schema-types.js';
import { uidStart } from '../../schema/syntaxes.js';
import type { RowStep } from '../../store/contract.js';
import { cellCounter, cellValue, counterBytes } from '../../store/row.js';
import { META_TABLE } from './tables.js';

/** Row of table `meta` that counts changes of who is in which group (docs/formats/tables.md). */
export const GROUPS_KEY = Buffer.from('groups');
const CHANGES = { family: 0, qualifier: Buffer.from('changes') };
const UIDS = { family: 0, qualifier: Buffer.from('uids') };

/** Step of the plan that makes a directory: no value has a UID behind a DN. */
export const NO_GROUPS_STEP: RowStep = {
  table: META_TABLE.name,
  key: GROUPS_KEY,
  put: [{ ...UIDS, value: counterBytes(0n) }],
};

/**
 * Step of a plan: a group may have another member. It adds and guards nothing, so plans do not wait for each other at
 * this row: over HBase each front end holds it shared, and folds what its plans have added.
 */
export const GROUPS_STEP: RowStep = { table: META_TABLE.name, key: GROUPS_KEY, add: [{ ...CHANGES, by: 1n }] };

/** The same, where a member may be named with a UID. */
export const UID_STEP: RowStep = { ...GROUPS_STEP, add: [...GROUPS_STEP.add!, { ...UIDS, by: 1n }] };

/** What row `groups` has counted. */
export function groupChanges(row: Buffer | undefined): bigint {
  return cellCounter(row, CHANGES.family, CHANGES.qualifier);
}

/** Whether a value may have a UID behind a DN; of a directory that was made by an older version nobody has counted. */
export function mayHaveUids(row: Buffer | undefined): boolean {
  const counted = row && cellValue(row, UIDS.family, UIDS.qualifier);
  return !counted || counted.readBigInt64BE() > 0n;
}

/** distinguishedNameMatch: its normal form is the one of the DN. */
export const DN_MATCH = '2.5.13.1';
/** uniqueMemberMatch: the same, and behind it the UID, where there is one. */
export const UNIQUE_MEMBER_MATCH = '2.5.13.23';

/** Whether its values are DNs, with a UID behind or without. */
export function namesEntries({ equality }: AttributeType): boolean {
  return equality?.oid === DN_MATCH || equality?.oid === UNIQUE_MEMBER_MATCH;
}

/** The DN of a value. */
export function withoutUid({ equality }: AttributeType, value: Buffer): Buffer {
  const hash = equality?.oid === UNIQUE_MEMBER_MATCH ? uidStart(value) : -1;
  return hash < 0 ? value : value.subarray(0, hash);
}

const MEMBER = '2.5.4.31';
/** The class of dynamic groups. */
const GROUP_OF_URLS = '2.16.840.1.113730.3.2.33';

/** Attributes that make an entry a group. */
export interface GroupTypes {
  /** member, uniqueMember and what is below them: their values name members. */
  readonly members: readonly AttributeType[];
  /** member itself: what a dynamic group's members are given out as. */
  readonly member: AttributeType | undefined;
  /** memberURL and what is below it: members are whom the URL finds. */
  readonly urls: ReadonlySet<AttributeType>;
  /** Normal form of the class of dynamic groups; undefined where the schema does not know it. */
  readonly dynamic: Buffer | undefined;
  /** All of these. */
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
