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
import { TimeSlice } from '../../fair/time-slice.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { CheckedEntry } from '../../partition/model/directory-types.js';
import { EntryReader } from '../../partition/model/entry-reader.js';
import type { Hit } from '../../partition/read/sink.js';
import { encodeAttribute } from '../../protocol/encode.js';
import type { SearchRequest } from '../../protocol/ldap-messages.js';
import { Writer } from '../../protocol/writer.js';
import type { AttributeDescription } from '../../schema/schema-types.js';
import { readRow } from '../entry/encode-entry.js';
import { printable } from '../words/printable.js';
import { namedIdentity, requestRights, viewerOf } from './access.js';
import type { Context } from './context.js';
import { rightsOfUser } from './rights.js';

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
  const requestedResult = readRequestedResult(context, request, control.attributes);
  const subject = await findSubject(context, control.authzId);
  if (!requestedResult.rights && !requestedResult.reasons) return undefined;
  const { partition, schema } = context.services;
  const clientRights = requestRights(context)?.rights;
  const reader = new EntryReader(partition.descriptions);
  return async (hit) => {
    const foundRow = await partition.findRow(schema.parseDn(hit.dn.toString()));
    if (!foundRow?.id.equals(hit.id)) return undefined;
    const mayManage = !clientRights || (clientRights.sightOf(foundRow).entryRights & MANAGE) !== NO_RIGHTS;
    if (!mayManage && !subject.isOwn) return undefined;
    const slice = new TimeSlice(context.client);
    const presentAttributes = requestedResult.presentAttributes ? await attributesIn(reader, hit.row, slice) : [];
    const attributes = [...new Set([...requestedResult.attributes, ...presentAttributes])];
    const result = new EntryRights(subject.rights, foundRow, attributes, slice);
    const writer = new Writer();
    if (requestedResult.rights) await result.writeRights(writer, requestedResult.typesOnly);
    if (requestedResult.reasons && mayManage) await result.writeReasons(writer, requestedResult.typesOnly);
    return Buffer.from(writer.take());
  };
}

/** Returns what the search requests of the result. `more`: the attributes that the control names. */
function readRequestedResult({ services }: Context, request: SearchRequest, more: readonly string[]) {
  const { schema } = services;
  const names = request.attributes.map((name) => name.toLowerCase().split(';')[0]!);
  const controlAttributes = more.map((name) => schema.requireDescription(name));
  const searchAttributes = request.attributes.flatMap((name) => schema.describe(name) ?? []);
  return {
    rights: names.includes('aclrights'),
    reasons: names.includes('aclrightsinfo'),
    typesOnly: request.typesOnly,
    attributes: [...controlAttributes, ...searchAttributes],
    /** Whether the attributes that the entry has and the client may read are included. */
    presentAttributes: names.includes('*'),
  };
}

/**
 * Returns the rights of the identity in the control; undefined: the administrator. `isOwn`: whether the rights are
 * those of the client, who may always read them.
 */
async function findSubject(
  context: Context,
  authzId: string | undefined,
): Promise<{ rights: Rights | undefined; isOwn: boolean }> {
  const rights = requestRights(context)?.rights;
  if (authzId === undefined) return { rights, isOwn: true };
  const { session, services } = context;
  if (/^dn:\s*$/i.test(authzId)) {
    if (session.identity.kind === 'anonymous') return { rights, isOwn: true };
    requireManageAnywhere(rights);
    return { rights: await rightsOfUser(context, undefined), isOwn: false };
  }
  const isByUid = /^u:/i.test(authzId);
  // Checked before the lookup, so that the result does not reveal which users exist.
  if (isByUid) requireManageAnywhere(rights);
  const dn = isByUid ? await lookUp(authzId, namedIdentity(context, authzId)) : await namedIdentity(context, authzId);
  if (session.dn !== '' && dn.norm.equals(services.schema.parseDn(session.dn).norm)) return { rights, isOwn: true };
  requireManageAnywhere(rights);
  if (dn.norm.equals(services.admin.norm)) return { rights: undefined, isOwn: false };
  const { node } = await lookUp(authzId, services.partition.findVisible(dn, viewerOf(context)));
  return { rights: await rightsOfUser(context, { id: node.id, dn }), isOwn: false };
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

async function attributesIn(reader: EntryReader, row: Buffer, slice: TimeSlice): Promise<AttributeDescription[]> {
  await readRow(reader, row, slice);
  const presentAttributes = reader.descriptions.slice(0, reader.attributeCount).map(({ description }) => description);
  return presentAttributes.filter(({ type }) => !type.secret);
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

/** Encodes the rights of one identity on one entry, within time slices. */
class EntryRights {
  readonly #rights: Rights | undefined;
  readonly #entry: CheckedEntry;
  readonly #attributes: readonly AttributeDescription[];
  readonly #slice: TimeSlice;
  readonly #isVisible: boolean;

  constructor(
    rights: Rights | undefined,
    entry: CheckedEntry,
    attributes: readonly AttributeDescription[],
    slice: TimeSlice,
  ) {
    this.#rights = rights;
    this.#entry = entry;
    this.#attributes = attributes;
    this.#slice = slice;
    this.#isVisible = rights?.sightOf(entry).seen ?? true;
  }

  /** Yields the attributes. Lets other work run between two of them at the end of a time slice. */
  async *#attributesInTurns(): AsyncGenerator<AttributeDescription> {
    for (const attribute of this.#attributes) {
      const pause = this.#slice.yieldIfOver();
      if (pause) await pause;
      yield attribute;
    }
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

  async writeRights(writer: Writer, typesOnly: boolean): Promise<void> {
    const entryRights = this.#rightsOnEntry();
    let mayWrite = false;
    for await (const attribute of this.#attributesInTurns())
      mayWrite ||= (this.#rightsOn(attribute) & rightSet('add', 'delete', 'replace')) !== NO_RIGHTS;
    const rights = [
      ...flagTextsOf(entryRights, LEGACY_ENTRY_RIGHTS),
      `write:${Number(mayWrite || (entryRights & rightSet('rename')) !== NO_RIGHTS)}`,
      ...rightsIn(ENTRY_RIGHTS | CHILDREN_RIGHTS).map((right) => flagText(right, entryRights, [right])),
    ];
    writeAttribute(writer, 'aclRights;entryLevel', rights.join(), typesOnly);
    for await (const attribute of this.#attributesInTurns()) {
      const attributeRights = this.#rightsOn(attribute);
      const flagTexts = [
        ...rightsIn(ATTRIBUTE_RIGHTS).map((right) => flagText(right, attributeRights, [right])),
        ...flagTextsOf(attributeRights, LEGACY_ATTRIBUTE_RIGHTS),
        flagText('proxy', entryRights, ['proxy']),
      ];
      writeAttribute(writer, `aclRights;attributeLevel;${attribute.text}`, flagTexts.join(), typesOnly);
    }
  }

  async writeReasons(writer: Writer, typesOnly: boolean): Promise<void> {
    for (const reason of this.#reasons(undefined))
      writeAttribute(writer, `aclRightsInfo;logs;entryLevel;${reason.right}`, this.#reasonText(reason), typesOnly);
    for await (const attribute of this.#attributesInTurns())
      for (const reason of this.#reasons(attribute))
        writeAttribute(
          writer,
          `aclRightsInfo;logs;attributeLevel;${reason.right};${attribute.text}`,
          this.#reasonText(reason),
          typesOnly,
        );
  }

  #reasons(attribute: AttributeDescription | undefined): readonly RightReason[] {
    if (this.#rights) return this.#rights.explain(this.#entry, attribute);
    const rights = rightsIn(attribute ? ATTRIBUTE_RIGHTS : ENTRY_RIGHTS | CHILDREN_RIGHTS);
    return rights.map((right) => ({ right, isGranted: true, rules: [] }));
  }

  #reasonText({ right, isGranted, rules }: RightReason): string {
    if (!this.#rights) return 'given: the administrator is above rules';
    if (!this.#isVisible && right !== 'see') return "not given: 'see' is not";
    const ruleNames = rules.map((name) => `'${name}'`).join(', ');
    if (isGranted) return `given by ${ruleNames}`;
    return ruleNames === '' ? 'not given: no rule grants it' : `not given, for ${ruleNames}`;
  }
}

function flagTextsOf(attributeRights: number, legacy: Readonly<Record<string, readonly Right[]>>): string[] {
  return Object.entries(legacy).map(([name, rights]) => flagText(name, attributeRights, rights));
}

function flagText(name: string, attributeRights: number, rights: readonly Right[]): string {
  const rightsMask = rightSet(...rights);
  return `${name}:${Number((attributeRights & rightsMask) === rightsMask)}`;
}

function writeAttribute(writer: Writer, type: string, value: string, typesOnly: boolean): void {
  encodeAttribute(writer, { type, values: typesOnly ? [] : [Buffer.from(value)] });
}
