import { formatFilter, parseFilter } from '../../ldap/filter-text.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Filter } from '../../ldap/ldap-types.js';
import type { Schema } from '../../schema/schema.js';
import type { AttributeType } from '../../schema/schema-types.js';
import { keysOf } from '../../store/maybe.js';
import { isComputed } from '../model/computed.js';
import { parseUniqueKey, UNIQUE_TABLE, uniqueRange } from '../model/unique-rows.js';
import { filterAttributes, type UniqueRecord } from '../model/value-rules.js';
import { suffixRdnIndex } from '../tree/nodes.js';
import { retryWithFreshState, type WriteContext } from '../write/context.js';

/** A uniqueness constraint as an operator defines it. */
export interface UniqueDefinition {
  readonly attributes: readonly string[];
  readonly subtree?: string | undefined;
  readonly filter?: string | undefined;
}

/**
 * Adds a constraint to the list. From then on every writer updates its rows. `finishUnique` adds the rows of existing
 * entries and puts the constraint in force. A listed constraint that is not yet in force stays as it is. Resolves with
 * its number.
 */
export async function addUnique(context: WriteContext, definition: UniqueDefinition): Promise<number> {
  const newDefinition = validateDefinition(context, definition);
  await context.store.createTable(UNIQUE_TABLE);
  return retryWithFreshState(context, async () => {
    const { records } = context.shared.values;
    const prior = records.unique.find((record) => isSameDefinition(record, newDefinition));
    if (prior?.ready)
      throw new LdapError('entryAlreadyExists', `this constraint is in force already, as number ${prior.number}`);
    if (prior) return prior.number;
    const number = records.last + 1;
    const unique = [...records.unique, { number, ...newDefinition, ready: false }];
    await context.shared.setValues({ ...records, last: number, unique });
    return number;
  });
}

export async function removeUnique(context: WriteContext, number: number): Promise<void> {
  await retryWithFreshState(context, async () => {
    const { records } = context.shared.values;
    const unique = records.unique.filter((record) => record.number !== number);
    if (unique.length === records.unique.length)
      throw new LdapError('noSuchObject', `there is no uniqueness constraint of number ${number}`);
    await context.shared.setValues({ ...records, unique });
  });
  await sweepUnique(context);
}

const ROWS_PER_PLAN = 500;

/** Removes rows of constraints that are not listed: the process that removed a constraint may have died meanwhile. */
export async function sweepUnique(context: WriteContext): Promise<void> {
  if (!(await context.store.tables()).some(({ name }) => name === UNIQUE_TABLE.name)) return;
  let from: Buffer | undefined;
  for (;;) {
    const keys = await keysOf(
      context.store.scan(UNIQUE_TABLE.name, { from }, { keysOnly: true, limit: ROWS_PER_PLAN }),
    );
    if (keys.length === 0) return;
    const { number } = parseUniqueKey(keys[0]!);
    const { to } = uniqueRange(number);
    const constraintKeys = keys.filter((key) => parseUniqueKey(key).number === number);
    const isListed = context.shared.values.records.unique.some((record) => record.number === number);
    if (!isListed) await removeRows(context, number, constraintKeys);
    else from = to;
    if (isListed && !to) return;
  }
}

/** Removes rows of a constraint that is not listed. Numbers are never reused, so a guard on the list suffices. */
async function removeRows(context: WriteContext, number: number, keys: readonly Buffer[]): Promise<void> {
  await retryWithFreshState(context, async () => {
    const { shared, store } = context;
    if (shared.values.records.unique.some((record) => record.number === number)) return;
    const deleteSteps = keys.map((key) => ({ table: UNIQUE_TABLE.name, key, deleteRow: true }));
    await store.commit({ steps: [shared.guardStep(false), ...deleteSteps], decisive: 0 });
  });
}

function isSameDefinition(record: UniqueRecord, definition: StoredDefinition): boolean {
  const { number, ready, ...recordDefinition } = record;
  return JSON.stringify(recordDefinition) === JSON.stringify(definition);
}

type StoredDefinition = Omit<UniqueRecord, 'number' | 'ready'>;

/** Checks the definition and returns it in the form in which it is stored. */
function validateDefinition(
  { schema, shared }: WriteContext,
  { attributes, subtree, filter }: UniqueDefinition,
): StoredDefinition {
  if (attributes.length === 0) throw new LdapError('unwillingToPerform', 'a uniqueness constraint needs an attribute');
  const types = new Set(attributes.map((name) => uniqueType(schema, name)));
  const dn = subtree === undefined ? undefined : schema.parseDn(subtree);
  if (dn && suffixRdnIndex(dn, shared.suffixes) < 0)
    throw new LdapError('noSuchObject', `'${subtree}' lies below no suffix of this directory`);
  const parsedFilter = filter === undefined ? undefined : parseFilter(filter);
  if (parsedFilter) checkFilter(schema, parsedFilter);
  return {
    attributes: [...types].map(({ oid }) => oid),
    ...(dn && { subtree: dn.text }),
    ...(parsedFilter && { filter: formatFilter(parsedFilter) }),
  };
}

/** Returns the attribute type. Throws if its values have no rows to look them up in. */
function uniqueType(schema: Schema, attribute: string): AttributeType {
  const { type, options } = schema.requireDescription(attribute);
  const refuse = (reason: string): never => {
    throw new LdapError('unwillingToPerform', `values of '${type.name}' cannot be kept unique: ${reason}`);
  };
  if (options.length > 0) refuse('a constraint is of an attribute with all its options; leave them out');
  if (type.secret) refuse('they are secret');
  if (type.noUserModification) refuse('the server itself sets them');
  if (!type.equality || type.equality.test) refuse('it has no equality rule whose values can be looked up');
  return type;
}

/** Throws if the filter depends on anything but the attributes of the entry. */
function checkFilter(schema: Schema, filter: Filter): void {
  for (const name of filterAttributes(filter)) {
    const { type } = schema.requireDescription(name);
    const refuse = (reason: string): never => {
      throw new LdapError('unwillingToPerform', `a constraint's filter cannot ask for '${type.name}': ${reason}`);
    };
    if (type.secret) refuse('its values are secret');
    if (isComputed(type)) refuse('it is not stored with the entry');
    if (type.noUserModification) refuse('the server itself sets it');
  }
  refuseUnnamedTerms(filter);
}

function refuseUnnamedTerms(filter: Filter): void {
  if (filter.type === 'and' || filter.type === 'or') for (const term of filter.filters) refuseUnnamedTerms(term);
  if (filter.type === 'not') refuseUnnamedTerms(filter.filter);
  if (filter.type !== 'extensible' || (filter.attribute !== undefined && !filter.dnAttributes)) return;
  throw new LdapError(
    'unwillingToPerform',
    "each term of a constraint's filter names an attribute, and none asks the DN",
  );
}
