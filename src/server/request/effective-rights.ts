import {
  ATTRIBUTE_RIGHTS,
  CHILDREN_RIGHTS,
  ENTRY_RIGHTS,
  NO_RIGHTS,
  type Right,
  rightSet,
  rightsIn,
} from '../../access/right.js';
import type { RightReason, Rights } from '../../access/rights.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { CheckedEntry } from '../../partition/model/directory-types.js';
import { EntryReader } from '../../partition/model/entry-reader.js';
import type { Hit } from '../../partition/read/sink.js';
import { encodeAttribute } from '../../protocol/encode.js';
import type { SearchRequest } from '../../protocol/ldap-messages.js';
import { Writer } from '../../protocol/writer.js';
import type { AttributeDescription } from '../../schema/schema-types.js';
import { printable } from '../words/printable.js';
import { requestRights, viewerOf } from './access.js';
import type { Context } from './context.js';
import { namedIdentity } from './named-identity.js';
import { rightsOfNamed } from './rights.js';

const MANAGE = rightSet('manage');
const EVERY_RIGHT = ENTRY_RIGHTS | CHILDREN_RIGHTS | ATTRIBUTE_RIGHTS;

/**
 * Returns a function that encodes the attributes `aclRights` and `aclRightsInfo` of an entry when the search names
 * them. `aclRights` contains the rights of an identity on the entry: users may read their own rights, and those of
 * others on entries on which they have the right `manage`. `aclRightsInfo` contains the deciding rules and requires
 * `manage`.
 */
export async function effectiveRights(
  context: Context,
  request: SearchRequest,
): Promise<((hit: Hit) => Promise<Buffer | undefined>) | undefined> {
  const control = context.controls.effectiveRights;
  if (!control) return undefined;
  const wanted = wantedOf(context, request, control.attributes);
  const subject = await subjectOf(context, control.authzId);
  if (!wanted.rights && !wanted.reasons) return undefined;
  const { partition, schema } = context.services;
  const own = requestRights(context)?.rights;
  const reader = new EntryReader(partition.descriptions);
  return async (hit) => {
    const found = await partition.findRow(schema.parseDn(hit.dn.toString()));
    if (!found?.id.equals(hit.id)) return undefined;
    const mayManage = !own || (own.sightOf(found).entryRights & MANAGE) !== NO_RIGHTS;
    if (!mayManage && !subject.isOwn) return undefined;
    const present = wanted.presentAttributes ? attributesIn(reader, hit.row) : [];
    const result = new EntryRights(subject.rights, found, [...new Set([...wanted.attributes, ...present])]);
    const writer = new Writer();
    if (wanted.rights) result.writeRights(writer, wanted.typesOnly);
    if (wanted.reasons && mayManage) result.writeReasons(writer, wanted.typesOnly);
    return Buffer.from(writer.take());
  };
}

/** Returns the parts of the result that the search requests. `more`: the attributes that the control names. */
function wantedOf({ services }: Context, request: SearchRequest, more: readonly string[]) {
  const { schema } = services;
  const names = request.attributes.map((name) => name.toLowerCase().split(';')[0]!);
  const described = more.map((name) => schema.requireDescription(name));
  const named = request.attributes.flatMap((name) => schema.describe(name) ?? []);
  return {
    rights: names.includes('aclrights'),
    reasons: names.includes('aclrightsinfo'),
    typesOnly: request.typesOnly,
    attributes: [...described, ...named],
    /** Whether the attributes that the entry has and the client may read are included. */
    presentAttributes: names.includes('*'),
  };
}

/**
 * Returns the rights of the identity in the control; undefined: the administrator. `isOwn`: whether the rights are
 * those of the client, who may always read them.
 */
async function subjectOf(
  context: Context,
  authzId: string | undefined,
): Promise<{ rights: Rights | undefined; isOwn: boolean }> {
  const rights = requestRights(context)?.rights;
  if (authzId === undefined) return { rights, isOwn: true };
  const { session, services } = context;
  if (/^dn:\s*$/i.test(authzId)) {
    if (session.identity.kind === 'anonymous') return { rights, isOwn: true };
    requireManageAnywhere(rights);
    return { rights: await rightsOfNamed(context, undefined), isOwn: false };
  }
  const isByUid = /^u:/i.test(authzId);
  // Checked before the lookup, so that the result does not reveal which users exist.
  if (isByUid) requireManageAnywhere(rights);
  const dn = isByUid ? await lookUp(authzId, namedIdentity(context, authzId)) : await namedIdentity(context, authzId);
  if (session.dn !== '' && dn.norm.equals(services.schema.parseDn(session.dn).norm)) return { rights, isOwn: true };
  requireManageAnywhere(rights);
  if (dn.norm.equals(services.admin.norm)) return { rights: undefined, isOwn: false };
  const { node } = await lookUp(authzId, services.partition.findVisible(dn, viewerOf(context)));
  return { rights: await rightsOfNamed(context, { id: node.id, dn }), isOwn: false };
}

/** Throws when the client has the right `manage` on no entry. */
function requireManageAnywhere(rights: Rights | undefined): void {
  if (rights && !rights.mayAnywhere('manage')) throw rights.nowhereError('manage');
}

async function lookUp<T>(authzId: string, lookup: Promise<T>): Promise<T> {
  try {
    return await lookup;
  } catch (error) {
    if (!(error instanceof LdapError) || (error.result !== 'noSuchObject' && error.result !== 'referral')) throw error;
    throw new LdapError('authorizationDenied', `'${printable(authzId)}' names nobody whose rights could be told`, {
      cause: error,
    });
  }
}

function attributesIn(reader: EntryReader, row: Buffer): AttributeDescription[] {
  reader.read(row);
  const present = reader.stored.slice(0, reader.count).map(({ description }) => description);
  return present.filter(({ type }) => !type.secret);
}

/** Names of rights that clients of other servers expect. Rowan's own names follow them. */
const LEGACY_ENTRY_RIGHTS = {
  add: ['create'],
  delete: ['remove'],
  read: ['see'],
} as const satisfies Record<string, readonly Right[]>;
const LEGACY_ATTRIBUTE_RIGHTS = {
  write: ['add', 'delete', 'replace'],
  selfwrite_add: ['add'],
  selfwrite_delete: ['delete'],
} as const satisfies Record<string, readonly Right[]>;

/** Encodes the rights of one identity on one entry. */
class EntryRights {
  readonly #rights: Rights | undefined;
  readonly #entry: CheckedEntry;
  readonly #attributes: readonly AttributeDescription[];
  readonly #isVisible: boolean;

  constructor(rights: Rights | undefined, entry: CheckedEntry, attributes: readonly AttributeDescription[]) {
    this.#rights = rights;
    this.#entry = entry;
    this.#attributes = attributes;
    this.#isVisible = rights?.sightOf(entry).seen ?? true;
  }

  /** Returns the rights on an attribute: none on an invisible entry. */
  #rightsOn(attribute: AttributeDescription): number {
    if (!this.#rights) return EVERY_RIGHT;
    return this.#isVisible ? this.#rights.sightOf(this.#entry).rightsOn(attribute) : NO_RIGHTS;
  }

  #rightsOnEntry(): number {
    if (!this.#rights) return EVERY_RIGHT;
    const { entryRights, childrenRights } = this.#rights.sightOf(this.#entry);
    return this.#isVisible ? (entryRights & ENTRY_RIGHTS) | (childrenRights & CHILDREN_RIGHTS) : NO_RIGHTS;
  }

  writeRights(writer: Writer, typesOnly: boolean): void {
    const own = this.#rightsOnEntry();
    const writes = this.#attributes.some(
      (attribute) => this.#rightsOn(attribute) & rightSet('add', 'delete', 'replace'),
    );
    const rights = [
      ...flags(own, LEGACY_ENTRY_RIGHTS),
      `write:${Number(writes || (own & rightSet('rename')) !== NO_RIGHTS)}`,
      ...rightsIn(ENTRY_RIGHTS | CHILDREN_RIGHTS).map((right) => flag(right, own, [right])),
    ];
    writeAttribute(writer, 'aclRights;entryLevel', rights.join(), typesOnly);
    for (const attribute of this.#attributes) {
      const set = this.#rightsOn(attribute);
      const names = [
        ...rightsIn(ATTRIBUTE_RIGHTS).map((right) => flag(right, set, [right])),
        ...flags(set, LEGACY_ATTRIBUTE_RIGHTS),
        flag('proxy', own, ['proxy']),
      ];
      writeAttribute(writer, `aclRights;attributeLevel;${attribute.text}`, names.join(), typesOnly);
    }
  }

  writeReasons(writer: Writer, typesOnly: boolean): void {
    for (const reason of this.#reasons(undefined))
      writeAttribute(writer, `aclRightsInfo;logs;entryLevel;${reason.right}`, this.#text(reason), typesOnly);
    for (const attribute of this.#attributes)
      for (const reason of this.#reasons(attribute))
        writeAttribute(
          writer,
          `aclRightsInfo;logs;attributeLevel;${reason.right};${attribute.text}`,
          this.#text(reason),
          typesOnly,
        );
  }

  #reasons(attribute: AttributeDescription | undefined): readonly RightReason[] {
    if (this.#rights) return this.#rights.explain(this.#entry, attribute);
    const rights = rightsIn(attribute ? ATTRIBUTE_RIGHTS : ENTRY_RIGHTS | CHILDREN_RIGHTS);
    return rights.map((right) => ({ right, isGranted: true, rules: [] }));
  }

  #text({ right, isGranted, rules }: RightReason): string {
    if (!this.#rights) return 'given: the administrator is above rules';
    if (!this.#isVisible && right !== 'see') return "not given: 'see' is not";
    const named = rules.map((name) => `'${name}'`).join(', ');
    if (isGranted) return `given by ${named}`;
    return named === '' ? 'not given: no rule grants it' : `not given, for ${named}`;
  }
}

function flags(set: number, legacy: Readonly<Record<string, readonly Right[]>>): string[] {
  return Object.entries(legacy).map(([name, rights]) => flag(name, set, rights));
}

function flag(name: string, set: number, rights: readonly Right[]): string {
  const all = rightSet(...rights);
  return `${name}:${Number((set & all) === all)}`;
}

function writeAttribute(writer: Writer, type: string, value: string, typesOnly: boolean): void {
  encodeAttribute(writer, { type, values: typesOnly ? [] : [Buffer.from(value)] });
}
