import { LdapError } from '../../ldap/ldap-error.js';
import type { PartialAttribute } from '../../ldap/ldap-types.js';
import { utf8Bytes } from '../../ldap/text.js';
import type { Dn } from '../../schema/schema-types.js';
import { isPromise } from '../../store/maybe.js';
import type { Actor, WriteOptions, WriteRequest } from '../model/directory-types.js';
import { type Draft, draftFromAttributes } from '../model/draft.js';
import { cutNorm, MASTER_TABLE, type Node, ROOT_ID } from '../model/tables.js';
import { isUuid, newUuid, parseUuid } from '../model/uuid.js';
import { ancestorDn, findEntry, throwNoSuchObject } from '../tree/locate.js';
import { joinDn, ROOT } from '../tree/nodes.js';
import { specialClass } from '../tree/specials.js';
import { write } from './attempt.js';
import { completeClasses, completeRdn } from './complete.js';
import type { Change, Target, WriteContext } from './context.js';
import { LargeValueWriter } from './large-ahead.js';
import { requireSeen } from './rules/access.js';

/** Adds an entry (RFC 4511 §4.7) and returns its entryUUID. */
export async function add(
  context: WriteContext,
  dn: Dn,
  requested: readonly PartialAttribute[],
  actor: Actor,
  options: WriteOptions = {},
): Promise<Buffer> {
  if (dn.rdns.length === 0) throw new LdapError('unwillingToPerform', 'the root DSE cannot be added');
  const draft = draftFromAttributes(context.schema, requested);
  const changes = draft.attributes.map(({ description }) => ({ operation: 'add', description }) as const);
  return addDraft(context, draft, dn, { op: 'add', actor, changes, rdn: dn.rdns[0]! }, options);
}

/** Adds an entry that is a draft already. Returns its entryUUID. */
export async function addDraft(
  context: WriteContext,
  draft: Draft,
  dn: Dn,
  asked: WriteRequest,
  options: WriteOptions = {},
): Promise<Buffer> {
  const largeWriter = new LargeValueWriter(context.store, MASTER_TABLE.name);
  let id: Buffer | undefined;
  const change = await write(context, {
    lockKey: dn.norm,
    request: asked,
    largeWriter,
    attachedSteps: options.attached,
    observer: options.observer,
    find: () => findNewPlace(context, dn, asked.actor, options),
    async change({ node, obstacle }) {
      const isRetry = id !== undefined;
      id ??= completeEntry(context, draft, dn);
      const takenError = isRetry && !obstacle ? await takenIdError(context, id) : obstacle;
      const addition = additionOf(draft.copy(), dn, node, id, asked.actor, takenError);
      return options.completeNew ? { ...addition, completeNew: options.completeNew } : addition;
    },
  });
  return change.id;
}

/** Adds superclasses, values of the RDN and an entryUUID to the draft. Returns the entryUUID. */
export function completeEntry(context: WriteContext, draft: Draft, dn: Dn): Buffer {
  completeClasses(context.schema, draft);
  completeRdn(draft, context.schema, dn.rdns[0]!);
  draft.id ??= presetId(draft) ?? newUuid(context.store.supports.spread);
  return draft.id;
}

/** Returns the entryUUID in the draft, which only privileged writers may set; undefined if there is none. */
function presetId(draft: Draft): Buffer | undefined {
  const text = draft.valueText('entryUUID');
  if (text === undefined) return undefined;
  const id = isUuid(text) ? parseUuid(text) : undefined;
  if (!id) throw new LdapError('invalidAttributeSyntax', `a value of 'entryUUID' is not a UUID`);
  if (id.equals(ROOT_ID)) throw new LdapError('constraintViolation', 'the nil UUID cannot be an entryUUID');
  return id;
}

/** Returns the change that adds the entry below `parent`. */
export function additionOf(
  entry: Draft,
  dn: Dn,
  parent: Node,
  id: Buffer,
  actor: Actor,
  obstacle: LdapError | undefined,
  isBatched = false,
): Change {
  const rdn = dn.rdns[0]!;
  const isSuffix = parent === ROOT;
  const upRdn = utf8Bytes(isSuffix ? dn.text : rdn.text);
  const newNode = { id, parent, normRdn: cutNorm(isSuffix ? dn.norm : rdn.norm), dn: joinDn(upRdn, parent.dn) };
  const place = { from: undefined, to: newNode, upRdn, rdn };
  return { op: 'add', id, actor, before: undefined, after: entry, place, obstacle, isBatched };
}

/** Returns an error if another entry has the entryUUID, which privileged writers set. Called after a failed guard. */
async function takenIdError(context: WriteContext, id: Buffer): Promise<LdapError | undefined> {
  const row = context.store.get(MASTER_TABLE.name, id);
  return (isPromise(row) ? await row : row)
    ? new LdapError('entryAlreadyExists', 'there is an entry with this entryUUID already')
    : undefined;
}

/** The parent of a new entry, and an error if the name is taken. */
interface NewPlace extends Target {
  readonly stored: undefined;
  readonly obstacle: LdapError | undefined;
}

/** Finds the parent of a new entry. Throws `noSuchObject` if it does not exist. */
async function findNewPlace(context: WriteContext, dn: Dn, actor: Actor, options: WriteOptions): Promise<NewPlace> {
  const { store, shared } = context;
  const maybeEntry = findEntry(context, store, dn);
  const existingEntry = isPromise(maybeEntry) ? await maybeEntry : maybeEntry;
  if (existingEntry) {
    const obstacle = new LdapError('entryAlreadyExists', 'there is an entry with this name already');
    return { node: existingEntry.node.parent!, stored: undefined, obstacle };
  }
  const node = shared.isSuffix(dn) ? ROOT : await findParent(context, dn, actor, options);
  return { node, stored: undefined, obstacle: undefined };
}

async function findParent(context: WriteContext, dn: Dn, { access }: Actor, options: WriteOptions): Promise<Node> {
  const { store } = context;
  const maybeParent = findEntry(context, store, ancestorDn(dn, 1));
  const parent = isPromise(maybeParent) ? await maybeParent : maybeParent;
  if (!parent) {
    const message = `the entry above it, '${ancestorDn(dn, 1).text}', does not exist; add it first`;
    return throwNoSuchObject(context, store, dn, options.manageDsaIT, message);
  }
  if (access) requireSeen(access, parent);
  const special = specialClass(context, parent.row);
  if (special === 'alias')
    throw new LdapError('namingViolation', 'an alias entry has no entries below it', {
      matchedDN: parent.node.dn.toString(),
    });
  // A referral object stands for its whole subtree (RFC 3296 §5.3).
  if (special === 'referral' && !options.manageDsaIT) return throwNoSuchObject(context, store, dn);
  return parent.node;
}
