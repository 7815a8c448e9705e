import { NO_RIGHTS, OF_ATTRIBUTE, OF_CHILDREN, OF_ENTRY, type Right, rightSet, rightsIn } from '../../access/right.js';
import type { RightReason, Rights } from '../../access/rights.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { MetEntry } from '../../partition/model/directory-types.js';
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

/** Whose rights are told; `rights` undefined: an administrator's, who is above rules. */
interface Subject {
  readonly rights: Rights | undefined;
  /** Who asks needs no right to hear of them. */
  readonly isOwn: boolean;
}

/** What the search asks for. */
interface Wanted {
  readonly rights: boolean;
  readonly reasons: boolean;
  readonly typesOnly: boolean;
  /** Of the control, and those that the search names. */
  readonly attributes: readonly AttributeDescription[];
  /** And those that the entry has, as far as who asks may read them. */
  readonly present: boolean;
}

const MANAGE = rightSet('manage');
const EVERY_RIGHT = OF_ENTRY | OF_CHILDREN | OF_ATTRIBUTE;

/**
 * Attributes `aclRights` of each entry, where the search names them: what somebody may do with it, of their own rights
 * to users, of others to who has the right `manage` on the entry. `aclRightsInfo`, with the rules that decide, is for
 * who has that right.
 */
export async function effectiveRights(
  context: Context,
  request: SearchRequest,
): Promise<((hit: Hit) => Promise<Buffer | undefined>) | undefined> {
  const asked = context.controls.effectiveRights;
  if (!asked) return undefined;
  const wanted = wantedOf(context, request, asked.attributes);
  const subject = await subjectOf(context, asked.authzId);
  if (!wanted.rights && !wanted.reasons) return undefined;
  const { partition, schema } = context.services;
  const own = requestRights(context)?.rights;
  const reader = new EntryReader(partition.descriptions);
  return async (hit) => {
    const found = await partition.findRow(schema.parseDn(hit.dn.toString()));
    if (!found?.id.equals(hit.id)) return undefined;
    const manages = !own || (own.of(found).entry & MANAGE) !== NO_RIGHTS;
    if (!manages && !subject.isOwn) return undefined;
    const present = wanted.present ? presentIn(reader, hit.row) : [];
    const told = new ToldRights(subject.rights, found, [...new Set([...wanted.attributes, ...present])]);
    const writer = new Writer();
    if (wanted.rights) told.writeRights(writer, wanted.typesOnly);
    if (wanted.reasons && manages) told.writeReasons(writer, wanted.typesOnly);
    return Buffer.from(writer.take());
  };
}

function wantedOf({ services }: Context, request: SearchRequest, more: readonly string[]): Wanted {
  const { schema } = services;
  const names = request.attributes.map((name) => name.toLowerCase().split(';')[0]!);
  const described = more.map((name) => schema.requireDescription(name));
  const named = request.attributes.flatMap((name) => schema.describe(name) ?? []);
  return {
    rights: names.includes('aclrights'),
    reasons: names.includes('aclrightsinfo'),
    typesOnly: request.typesOnly,
    attributes: [...described, ...named],
    present: names.includes('*'),
  };
}

async function subjectOf(context: Context, authzId: string | undefined): Promise<Subject> {
  const rights = requestRights(context)?.rights;
  if (authzId === undefined) return { rights, isOwn: true };
  const { session, services } = context;
  if (/^dn:\s*$/i.test(authzId)) {
    if (session.identity.kind === 'anonymous') return { rights, isOwn: true };
    requireSome(rights);
    return { rights: await rightsOfNamed(context, undefined), isOwn: false };
  }
  const isByUid = /^u:/i.test(authzId);
  // Who may hear of nobody else's rights does not learn by the answer who is there.
  if (isByUid) requireSome(rights);
  const dn = isByUid ? await found(authzId, namedIdentity(context, authzId)) : await namedIdentity(context, authzId);
  if (session.dn !== '' && dn.norm.equals(services.schema.parseDn(session.dn).norm)) return { rights, isOwn: true };
  requireSome(rights);
  if (dn.norm.equals(services.admin.norm)) return { rights: undefined, isOwn: false };
  const { node } = await found(authzId, services.partition.findVisible(dn, viewerOf(context)));
  return { rights: await rightsOfNamed(context, { id: node.id, dn }), isOwn: false };
}

/** Throws where there is no entry of which who asks may hear what others may do. */
function requireSome(rights: Rights | undefined): void {
  if (rights && !rights.mayEver('manage')) throw rights.nowhere('manage');
}

async function found<T>(authzId: string, searching: Promise<T>): Promise<T> {
  try {
    return await searching;
  } catch (error) {
    if (!(error instanceof LdapError) || (error.result !== 'noSuchObject' && error.result !== 'referral')) throw error;
    throw new LdapError('authorizationDenied', `'${printable(authzId)}' names nobody whose rights could be told`, {
      cause: error,
    });
  }
}

function presentIn(reader: EntryReader, row: Buffer): AttributeDescription[] {
  reader.read(row);
  const present = reader.stored.slice(0, reader.count).map(({ description }) => description);
  return present.filter(({ type }) => !type.secret);
}

/** Words of the attributes that clients of other servers read, before the names of all rights. */
const OLDER_OF_ENTRY = {
  add: ['create'],
  delete: ['remove'],
  read: ['see'],
} as const satisfies Record<string, readonly Right[]>;
const OLDER_OF_ATTRIBUTE = {
  write: ['add', 'delete', 'replace'],
  selfwrite_add: ['add'],
  selfwrite_delete: ['delete'],
} as const satisfies Record<string, readonly Right[]>;

/** What somebody may do with one entry. */
class ToldRights {
  readonly #rights: Rights | undefined;
  readonly #entry: MetEntry;
  readonly #attributes: readonly AttributeDescription[];
  readonly #seen: boolean;

  constructor(rights: Rights | undefined, entry: MetEntry, attributes: readonly AttributeDescription[]) {
    this.#rights = rights;
    this.#entry = entry;
    this.#attributes = attributes;
    this.#seen = rights?.of(entry).seen ?? true;
  }

  /** Of an entry that is not there for somebody nothing may be done. */
  #on(attribute: AttributeDescription): number {
    if (!this.#rights) return EVERY_RIGHT;
    return this.#seen ? this.#rights.of(this.#entry).on(attribute) : NO_RIGHTS;
  }

  #onEntry(): number {
    if (!this.#rights) return EVERY_RIGHT;
    const { entry, children } = this.#rights.of(this.#entry);
    return this.#seen ? (entry & OF_ENTRY) | (children & OF_CHILDREN) : NO_RIGHTS;
  }

  writeRights(writer: Writer, typesOnly: boolean): void {
    const own = this.#onEntry();
    const writes = this.#attributes.some((attribute) => this.#on(attribute) & rightSet('add', 'delete', 'replace'));
    const rights = [
      ...flags(own, OLDER_OF_ENTRY),
      `write:${Number(writes || (own & rightSet('rename')) !== NO_RIGHTS)}`,
      ...rightsIn(OF_ENTRY | OF_CHILDREN).map((right) => flag(right, own, [right])),
    ];
    write(writer, 'aclRights;entryLevel', rights.join(), typesOnly);
    for (const attribute of this.#attributes) {
      const set = this.#on(attribute);
      const names = [
        ...rightsIn(OF_ATTRIBUTE).map((right) => flag(right, set, [right])),
        ...flags(set, OLDER_OF_ATTRIBUTE),
        flag('proxy', own, ['proxy']),
      ];
      write(writer, `aclRights;attributeLevel;${attribute.text}`, names.join(), typesOnly);
    }
  }

  writeReasons(writer: Writer, typesOnly: boolean): void {
    for (const reason of this.#reasons(undefined))
      write(writer, `aclRightsInfo;logs;entryLevel;${reason.right}`, this.#text(reason), typesOnly);
    for (const attribute of this.#attributes)
      for (const reason of this.#reasons(attribute))
        write(
          writer,
          `aclRightsInfo;logs;attributeLevel;${reason.right};${attribute.text}`,
          this.#text(reason),
          typesOnly,
        );
  }

  #reasons(attribute: AttributeDescription | undefined): readonly RightReason[] {
    if (this.#rights) return this.#rights.explain(this.#entry, attribute);
    const rights = rightsIn(attribute ? OF_ATTRIBUTE : OF_ENTRY | OF_CHILDREN);
    return rights.map((right) => ({ right, given: true, rules: [] }));
  }

  #text({ right, given, rules }: RightReason): string {
    if (!this.#rights) return 'given: the administrator is above rules';
    if (!this.#seen && right !== 'see') return "not given: 'see' is not";
    const named = rules.map((name) => `'${name}'`).join(', ');
    if (given) return `given by ${named}`;
    return named === '' ? 'not given: no rule grants it' : `not given, for ${named}`;
  }
}

function flags(set: number, older: Readonly<Record<string, readonly Right[]>>): string[] {
  return Object.entries(older).map(([name, rights]) => flag(name, set, rights));
}

function flag(name: string, set: number, rights: readonly Right[]): string {
  const all = rightSet(...rights);
  return `${name}:${Number((set & all) === all)}`;
}

function write(writer: Writer, type: string, value: string, typesOnly: boolean): void {
  encodeAttribute(writer, { type, values: typesOnly ? [] : [Buffer.from(value)] });
}
