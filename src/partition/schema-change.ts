import { LdapError } from '../ldap/ldap-error.js';
import type { Filter } from '../ldap/ldap-types.js';
import type { Schema } from '../schema/index.js';
import type { AttributeType, ObjectClass } from '../schema/schema-types.js';
import { search } from './read/run/search.js';
import { UNLIMITED_SEARCH } from './read/search-params.js';
import { findEntry } from './tree/locate.js';
import type { WriteContext } from './write/context.js';

type Context = Parameters<typeof search>[0] & WriteContext;

export interface SchemaChange {
  /** Number of attribute types and object classes that the new schema adds. */
  readonly added: number;
  readonly removed: number;
  readonly changed: number;
}

type Definition = Pick<AttributeType | ObjectClass, 'oid' | 'name' | 'definition'>;

function removedFrom<T extends Definition>(
  oldDefinitions: Iterable<T>,
  newDefinitions: ReadonlyMap<string, Definition>,
): T[] {
  return [...oldDefinitions].filter(({ oid }) => !newDefinitions.has(oid));
}

function definitionsByOid(schema: Schema): Map<string, Definition> {
  return new Map([...schema.attributes(), ...schema.objectClasses()].map((definition) => [definition.oid, definition]));
}

/** Replaces the schema of the directory. Throws if stored data depends on a definition that `newSchema` lacks. */
export async function changeSchema(context: Context, newSchema: Schema): Promise<SchemaChange> {
  await context.shared.refresh();
  const oldByOid = definitionsByOid(context.schema);
  const newByOid = definitionsByOid(newSchema);
  const types = removedFrom(context.schema.attributes(), newByOid);
  const classes = removedFrom(context.schema.objectClasses(), newByOid);
  refuseNames(context, newSchema);
  refuseIndexed(context, types);
  refuseUnique(context, types);
  await refuseInUse(context, types, classes);
  await context.shared.setSchema(newSchema.source);
  let changedCount = 0;
  for (const { oid, definition } of newByOid.values()) {
    const oldDefinition = oldByOid.get(oid);
    if (oldDefinition && oldDefinition.definition !== definition) changedCount++;
  }
  const removed = types.length + classes.length;
  return { added: newByOid.size - (oldByOid.size - removed), removed, changed: changedCount };
}

/** Throws if the new schema cannot parse the suffixes or the administrator's DN. */
function refuseNames({ shared: { settings } }: Context, newSchema: Schema): void {
  for (const dn of [...settings.suffixes, settings.adminDn]) {
    try {
      newSchema.parseDn(dn);
    } catch (error) {
      if (!(error instanceof LdapError)) throw error;
      throw new LdapError('unwillingToPerform', `'${dn}' would be no name any more: ${error.message}`);
    }
  }
}

function refuseIndexed(context: Context, types: readonly AttributeType[]): void {
  for (const { oid, name } of types) {
    if (!context.shared.indexes.info().some((index) => index.oid === oid)) continue;
    throw new LdapError(
      'unwillingToPerform',
      `attribute '${name}' has an index and would not be defined any more; drop it first: rowan index drop ${name}`,
    );
  }
}

function refuseUnique({ shared }: Context, types: readonly AttributeType[]): void {
  for (const type of types) {
    if (shared.values.numberRanges.some((range) => range.type === type))
      throw new LdapError(
        'unwillingToPerform',
        `numbers of attribute '${type.name}' are given out, and it would not be defined any more; end that first: rowan number remove ${type.name}`,
      );
    const unique = shared.values.constraints.find(({ relevantTypes }) => relevantTypes.has(type));
    if (!unique) continue;
    const reason = `attribute '${type.name}' is in a uniqueness constraint and would not be defined any more`;
    throw new LdapError(
      'unwillingToPerform',
      `${reason}; remove it first: rowan unique remove ${unique.record.number}`,
    );
  }
}

async function refuseInUse(
  context: Context,
  types: readonly AttributeType[],
  classes: readonly ObjectClass[],
): Promise<void> {
  for (const { oid, name } of classes) {
    const dn = await firstMatch(context, { type: 'equal', attribute: 'objectClass', value: Buffer.from(oid) });
    if (dn !== undefined) refuseUse(`object class '${name}'`, dn);
  }
  const presenceFilters = types.map(({ oid }) => ({ type: 'present', attribute: oid }) as const);
  if (presenceFilters.length === 0) return;
  const dn = await firstMatch(context, { type: 'or', filters: presenceFilters });
  if (dn !== undefined) refuseUse(types.map(({ name }) => `attribute '${name}'`).join(' or '), dn);
}

function refuseUse(definition: string, dn: string): never {
  throw new LdapError(
    'unwillingToPerform',
    `${definition} would not be defined any more, and '${dn}' has it; change such entries first`,
  );
}

/** Returns the DN of an entry that matches; undefined if there is none. Ignores deleted entries. */
async function firstMatch(context: Context, filter: Filter): Promise<string | undefined> {
  let matchDn: string | undefined;
  for (const base of context.shared.suffixes) {
    if (!(await findEntry(context, context.store, base))) continue;
    const params = { ...UNLIMITED_SEARCH, base, scope: 'sub', filter, pageSize: 1 } as const;
    await search(context, params, {
      entry: ({ dn }) => {
        matchDn ??= dn.toString();
      },
      reference: () => undefined,
    });
    if (matchDn !== undefined) return matchDn;
  }
  return undefined;
}
