import { LdapError } from '../ldap/ldap-error.js';
import type { Filter } from '../ldap/ldap-types.js';
import type { Schema } from '../schema/index.js';
import type { AttributeType, ObjectClass } from '../schema/schema-types.js';
import { search } from './read/run/search.js';
import { EVERYTHING } from './read/search-params.js';
import { findEntry } from './tree/locate.js';
import type { WriteContext } from './write/context.js';

type Context = Parameters<typeof search>[0] & WriteContext;

export interface SchemaChange {
  /** Numbers of attribute types and object classes that `next` adds, lacks, and defines differently. */
  readonly added: number;
  readonly removed: number;
  readonly changed: number;
}

type Defined = Pick<AttributeType | ObjectClass, 'oid' | 'name' | 'definition'>;

function removedFrom<T extends Defined>(before: Iterable<T>, after: ReadonlyMap<string, Defined>): T[] {
  return [...before].filter(({ oid }) => !after.has(oid));
}

function byOid(schema: Schema): Map<string, Defined> {
  return new Map([...schema.attributes(), ...schema.objectClasses()].map((one) => [one.oid, one]));
}

/** Replaces the schema of the directory. Throws if stored data depends on a definition that `next` lacks. */
export async function changeSchema(context: Context, next: Schema): Promise<SchemaChange> {
  await context.shared.refresh();
  const before = byOid(context.schema);
  const after = byOid(next);
  const types = removedFrom(context.schema.attributes(), after);
  const classes = removedFrom(context.schema.objectClasses(), after);
  refuseNames(context, next);
  refuseIndexed(context, types);
  refuseUnique(context, types);
  await refuseUsed(context, types, classes);
  await context.shared.setSchema(next.source);
  let changed = 0;
  for (const { oid, definition } of after.values()) {
    const known = before.get(oid);
    if (known && known.definition !== definition) changed++;
  }
  const removed = types.length + classes.length;
  return { added: after.size - (before.size - removed), removed, changed };
}

/** Throws if `next` cannot parse the suffixes or the administrator's DN. */
function refuseNames({ shared: { settings } }: Context, next: Schema): void {
  for (const dn of [...settings.suffixes, settings.adminDn]) {
    try {
      next.parseDn(dn);
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
    const what = `attribute '${type.name}' is in a uniqueness constraint and would not be defined any more`;
    throw new LdapError('unwillingToPerform', `${what}; remove it first: rowan unique remove ${unique.record.number}`);
  }
}

async function refuseUsed(
  context: Context,
  types: readonly AttributeType[],
  classes: readonly ObjectClass[],
): Promise<void> {
  for (const { oid, name } of classes) {
    const dn = await firstMatch(context, { type: 'equal', attribute: 'objectClass', value: Buffer.from(oid) });
    if (dn !== undefined) refuseUse(`object class '${name}'`, dn);
  }
  const present = types.map(({ oid }) => ({ type: 'present', attribute: oid }) as const);
  if (present.length === 0) return;
  const dn = await firstMatch(context, { type: 'or', filters: present });
  if (dn !== undefined) refuseUse(types.map(({ name }) => `attribute '${name}'`).join(' or '), dn);
}

function refuseUse(what: string, dn: string): never {
  throw new LdapError(
    'unwillingToPerform',
    `${what} would not be defined any more, and '${dn}' has it; change such entries first`,
  );
}

/** Returns the DN of an entry that matches, deleted entries aside. */
async function firstMatch(context: Context, filter: Filter): Promise<string | undefined> {
  let found: string | undefined;
  for (const base of context.shared.suffixes) {
    if (!(await findEntry(context, context.store, base))) continue;
    const params = { ...EVERYTHING, base, scope: 'sub', filter, pageSize: 1 } as const;
    await search(context, params, {
      entry: ({ dn }) => {
        found ??= dn.toString();
      },
      reference: () => undefined,
    });
    if (found !== undefined) return found;
  }
  return undefined;
}
