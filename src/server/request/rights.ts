import type { CompiledAccess } from '../../access/compiled-access.js';
import type { IsMember, Requester } from '../../access/requester.js';
import type { Rights } from '../../access/rights.js';
import { chain, isPromise, type Maybe } from '../../partition/index.js';
import type { Schema } from '../../schema/schema.js';
import type { Dn } from '../../schema/schema-types.js';
import type { Services } from '../services/services.js';
import type { Identity, Session, SessionRights } from '../words/session.js';
import type { Transport } from './context.js';

/** The session and its connection, from which rights are computed. */
export interface RightsContext {
  readonly services: Services;
  readonly session: Session;
  readonly transport: Pick<Transport, 'isEncrypted' | 'isConfidential' | 'address' | 'cipherStrength'>;
}

/**
 * Returns the rights of the identity that sent a request; undefined: the administrator. The access rules are those of
 * the last read of the shared row, by `isBindValid` or at the start of an attempt to write.
 */
export function rightsOf(context: RightsContext, identity: Identity): Maybe<SessionRights | undefined> {
  if (identity.kind === 'admin') return undefined;
  const { services, session } = context;
  const access = services.access.rulesInForce();
  if (isPromise(access)) return access.then((rules) => cachedRights(context, identity, rules));
  const { rights } = session;
  if (access.groups.length === 0 && rights && isCurrent(rights, context, identity, access, undefined)) return rights;
  return cachedRights(context, identity, access);
}

/** Returns the rights of the session's identity at the beginning of an operation. */
export function sessionRights(context: RightsContext): Maybe<SessionRights | undefined> {
  const { identity } = context.session;
  // For bound identities `isBindValid` has read the shared row.
  if (identity.kind !== 'anonymous') return rightsOf(context, identity);
  const rulesRead = context.services.partition.freshAccessVersion();
  return isPromise(rulesRead) ? rulesRead.then(() => rightsOf(context, identity)) : rightsOf(context, identity);
}

function cachedRights(context: RightsContext, identity: Identity, access: CompiledAccess): Maybe<SessionRights> {
  const { services, session } = context;
  return chain(readGroupsVersion(services, access, identity), (groupsVersion) => {
    const knownRights = session.rights;
    if (knownRights && isCurrent(knownRights, context, identity, access, groupsVersion)) return knownRights;
    return chain(computeRights(context, identity, access, groupsVersion), (rights) => {
      if (session.identity === identity) session.rights = rights;
      return rights;
    });
  });
}

function isCurrent(
  knownRights: SessionRights,
  { transport }: RightsContext,
  identity: Identity,
  access: CompiledAccess,
  groupsVersion: bigint | undefined,
): boolean {
  return (
    knownRights.identity === identity &&
    knownRights.access === access &&
    knownRights.groupsVersion === groupsVersion &&
    knownRights.isEncrypted === transport.isEncrypted
  );
}

function readGroupsVersion(
  { partition }: Services,
  { groups }: CompiledAccess,
  { kind }: Identity,
): Maybe<bigint | undefined> {
  return groups.length > 0 && kind === 'user' ? partition.groupsVersion() : undefined;
}

function computeRights(
  context: RightsContext,
  identity: Identity,
  access: CompiledAccess,
  groupsVersion: bigint | undefined,
): Maybe<SessionRights> {
  const { services, transport } = context;
  const user = identity.kind === 'user' ? new User(services.schema, identity) : undefined;
  const requester = requesterOf(context, user, mechanismOf(identity));
  return chain(ruleGroupsOf(services, access, user, groupsVersion), (names) => {
    const { rights, limits } = access.entitle(requester, isInGroup(names));
    return { rights, limits, identity, access, isEncrypted: transport.isEncrypted, groupsVersion };
  });
}

/** Returns the rights that another user, or an anonymous client (undefined), would have on this connection. */
export async function rightsOfUser(context: RightsContext, user: Requester['user']): Promise<Rights> {
  const { services } = context;
  const access = await services.access.rulesInForce();
  const names = user && access.groups.length > 0 ? await services.partition.groupsOf(user) : NO_GROUPS;
  return access.entitle(requesterOf(context, user, user && 'simple'), isInGroup(names)).rights;
}

function requesterOf(
  { transport }: RightsContext,
  user: Requester['user'],
  mechanism: Requester['mechanism'],
): Requester {
  const { address, cipherStrength: strength, isConfidential: confidential } = transport;
  return { user, address, strength, confidential, mechanism };
}

/** A user for the evaluation of rules. The DN is parsed on first use, because few rules refer to it. */
class User {
  readonly id: Buffer;
  readonly #dnText: string;
  readonly #schema: Schema;
  readonly #entryVersion: bigint;
  #dn: Dn | undefined;

  constructor(schema: Schema, { id, version, dn }: Extract<Identity, { kind: 'user' }>) {
    this.id = id;
    this.#dnText = dn;
    this.#schema = schema;
    this.#entryVersion = version;
  }

  get dn(): Dn {
    this.#dn ??= this.#schema.parseDn(this.#dnText);
    return this.#dn;
  }

  /** Identifies the version of the entry, on which the membership in dynamic groups depends. */
  get key(): string {
    return `${this.#entryVersion} ${this.id.toString('latin1')}${this.#dnText}`;
  }
}

/** Returns the user's groups that rules name. `version`: version of the groups; undefined: no group matters. */
function ruleGroupsOf(
  { partition }: Services,
  { groups, membershipCache }: CompiledAccess,
  user: User | undefined,
  version: bigint | undefined,
): Maybe<ReadonlySet<string>> {
  if (!user || version === undefined) return NO_GROUPS;
  const { key } = user;
  // Versions of a trial directory mean nothing elsewhere.
  const cachedNames = partition.isTrial ? undefined : membershipCache.get(version, key);
  if (cachedNames) return cachedNames;
  return chain(partition.groupsOf(user), (groupNames) => {
    const matchingNames = groups.map(groupName).filter((name) => groupNames.has(name));
    const names = matchingNames.length > 0 ? new Set(matchingNames) : NO_GROUPS;
    if (!partition.isTrial) membershipCache.set(version, key, names);
    return names;
  });
}

function isInGroup(names: ReadonlySet<string>): IsMember {
  return (group) => names.has(groupName(group));
}

/** Returns the name that `Partition.groupsOf` uses for a group. */
function groupName({ norm }: Dn): string {
  return norm.toString('latin1');
}

function mechanismOf(identity: Identity): Requester['mechanism'] {
  if (identity.kind !== 'user') return undefined;
  return identity.application ? 'application' : 'simple';
}

const NO_GROUPS: ReadonlySet<string> = new Set();
