import type { Asker, InGroup } from '../../access/asker.js';
import type { CompiledAccess } from '../../access/compiled-access.js';
import type { Rights } from '../../access/rights.js';
import type { Schema } from '../../schema/schema.js';
import type { Dn } from '../../schema/schema-types.js';
import type { Services } from '../services/services.js';
import { chain, isPromise, type Maybe } from '../words/maybe.js';
import type { Identity, Session, SessionRights } from '../words/session.js';
import type { Transport } from './context.js';

/** What rights are worked out from. */
export interface RightsContext {
  readonly services: Services;
  readonly session: Session;
  readonly transport: Pick<Transport, 'encrypted' | 'confidential' | 'address' | 'strength'>;
}

/**
 * The rights of an identity that a request came under, by the access rules that were in force when the shared row was
 * read last: by `stillHolds`, or at the start of an attempt to write. Undefined: it is above rules.
 */
export function rightsOf(context: RightsContext, identity: Identity): Maybe<SessionRights | undefined> {
  if (identity.kind === 'admin') return undefined;
  const { services, session } = context;
  const access = services.access.current();
  if (isPromise(access)) return access.then((rules) => rightsBy(context, identity, rules));
  const { rights } = session;
  if (access.groups.length === 0 && rights && isSame(rights, context, identity, access, undefined)) return rights;
  return rightsBy(context, identity, access);
}

/** The same, of the session's identity, for an operation that begins. */
export function sessionRights(context: RightsContext): Maybe<SessionRights | undefined> {
  const { identity } = context.session;
  // Of others `stillHolds` has read the shared row.
  if (identity.kind !== 'anonymous') return rightsOf(context, identity);
  const fresh = context.services.partition.freshAccess();
  return isPromise(fresh) ? fresh.then(() => rightsOf(context, identity)) : rightsOf(context, identity);
}

function rightsBy(context: RightsContext, identity: Identity, access: CompiledAccess): Maybe<SessionRights> {
  const { services, session } = context;
  return chain(groupsVersion(services, access, identity), (groups) => {
    const known = session.rights;
    if (known && isSame(known, context, identity, access, groups)) return known;
    return chain(made(context, identity, access, groups), (rights) => {
      if (session.identity === identity) session.rights = rights;
      return rights;
    });
  });
}

function isSame(
  known: SessionRights,
  { transport }: RightsContext,
  identity: Identity,
  access: CompiledAccess,
  groups: bigint | undefined,
): boolean {
  return (
    known.identity === identity &&
    known.access === access &&
    known.groups === groups &&
    known.encrypted === transport.encrypted
  );
}

function groupsVersion(
  { partition }: Services,
  { groups }: CompiledAccess,
  { kind }: Identity,
): Maybe<bigint | undefined> {
  return groups.length > 0 && kind === 'user' ? partition.groupsVersion() : undefined;
}

function made(
  context: RightsContext,
  identity: Identity,
  access: CompiledAccess,
  groups: bigint | undefined,
): Maybe<SessionRights> {
  const { services, transport } = context;
  const user = identity.kind === 'user' ? new User(services.schema, identity) : undefined;
  const asker = askerOf(context, user, mechanismOf(identity));
  return chain(knownGroupsOf(services, access, user, groups), (names) => {
    const { rights, limits } = access.entitle(asker, isIn(names));
    return { rights, limits, identity, access, encrypted: transport.encrypted, groups };
  });
}

/** The rights of another who would come by the same way; undefined: of who is not bound. */
export async function rightsOfNamed(context: RightsContext, user: Asker['user']): Promise<Rights> {
  const { services } = context;
  const access = await services.access.current();
  const names = user && access.groups.length > 0 ? await services.partition.groupsOf(user) : NO_GROUPS;
  return access.entitle(askerOf(context, user, user && 'simple'), isIn(names)).rights;
}

function askerOf({ transport }: RightsContext, user: Asker['user'], mechanism: Asker['mechanism']): Asker {
  const { address, strength, confidential } = transport;
  return { user, address, strength, confidential, mechanism };
}

/** Who is bound as an entry. Few rules ask for the DN. */
class User {
  readonly id: Buffer;
  readonly #text: string;
  readonly #schema: Schema;
  readonly #version: bigint;
  #dn: Dn | undefined;

  constructor(schema: Schema, { id, version, dn }: Extract<Identity, { kind: 'user' }>) {
    this.id = id;
    this.#text = dn;
    this.#schema = schema;
    this.#version = version;
  }

  get dn(): Dn {
    this.#dn ??= this.#schema.parseDn(this.#text);
    return this.#dn;
  }

  /** Tells the entry from others and from what it was before: dynamic groups look into it. */
  get key(): string {
    return `${this.#version} ${this.id.toString('latin1')}${this.#text}`;
  }
}

/** Those that rules name; `version`: undefined where they name none, or none matters. */
function knownGroupsOf(
  { partition }: Services,
  { groups, known }: CompiledAccess,
  user: User | undefined,
  version: bigint | undefined,
): Maybe<ReadonlySet<string>> {
  if (!user || version === undefined) return NO_GROUPS;
  const { key } = user;
  const before = known.get(version, key);
  if (before) return before;
  return chain(partition.groupsOf(user), (all) => {
    const named = groups.map(nameOf).filter((name) => all.has(name));
    const names = named.length > 0 ? new Set(named) : NO_GROUPS;
    known.set(version, key, names);
    return names;
  });
}

function isIn(names: ReadonlySet<string>): InGroup {
  return (group) => names.has(nameOf(group));
}

/** As `Partition.groupsOf` names it. */
function nameOf({ norm }: Dn): string {
  return norm.toString('latin1');
}

function mechanismOf(identity: Identity): Asker['mechanism'] {
  if (identity.kind !== 'user') return undefined;
  return identity.application ? 'application' : 'simple';
}

const NO_GROUPS: ReadonlySet<string> = new Set();
