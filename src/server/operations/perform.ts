import { LdapError } from '../../ldap/ldap-error.js';
import type { PartialAttribute, Scope } from '../../ldap/ldap-types.js';
import { chain, isPromise, type Maybe, type Target } from '../../partition/index.js';
import type { StateAttribute } from '../../partition/model/account-state.js';
import type { WriteOptions } from '../../partition/model/directory-types.js';
import { attributeKey } from '../../partition/model/draft.js';
import type { Viewer } from '../../partition/model/viewer.js';
import { PasswordMatcher } from '../../password/index.js';
import type {
  AddRequest,
  CompareRequest,
  DeleteRequest,
  ModifyDnRequest,
  Request,
  SearchRequest,
} from '../../protocol/ldap-messages.js';
import { ExtendedOid } from '../../protocol/oids.js';
import type { Schema } from '../../schema/schema.js';
import type { Dn } from '../../schema/schema-types.js';
import { isCredential } from '../passwords/credentials.js';
import { isPasswordAttribute } from '../passwords/password-hashing.js';
import {
  actorOf,
  OperationSource,
  requestRights,
  requireConfidential,
  requireRightsFor,
  viewerOf,
} from '../request/access.js';
import type { Context, SearchReply } from '../request/context.js';
import { newEntryCheck, verifyInSession } from '../request/password-change.js';
import { policyRefusalOutcome, requireOwnPassword, resetError, runPasswordChange } from '../request/password-policy.js';
import { proxiedSession } from '../request/proxied-authorization.js';
import { sessionRights } from '../request/rights.js';
import { isStateAttribute, readStateValues } from '../request/state-attributes.js';
import { requireValidBind } from '../request/validity.js';
import { orLastKnown } from '../words/last-known.js';
import { COMPARE_FALSE, COMPARE_TRUE, type Outcome, primaryReferral } from '../words/outcome.js';
import { bind } from './bind.js';
import { compareAsserted, requireAssertion, runWrite } from './entry-controls.js';
import { extendedOperation } from './extended/extended.js';
import { persistentSearch } from './followed-search.js';
import { modify } from './modify.js';
import { compareVirtual, needsNoStore, refuseVirtual, search } from './search.js';
import { searchFormer } from './search-former.js';
import { searchDeleted, viewedReply } from './search-view.js';
import { isSorted, sortedSearch } from './sorted-search.js';
import { syncSearch } from './sync-search.js';
import { endTransaction } from './transaction.js';

export type AnsweredRequest = Exclude<Request, { op: 'unbind' | 'abandon' }>;

/** Runs an operation, synchronously when possible. Throws or rejects with the error that ends the operation. */
export function perform(context: Context, request: AnsweredRequest, reply: SearchReply): Maybe<Outcome> {
  if (request.op === 'bind') return bind(context, request);
  if (context.controls.transaction !== undefined)
    throw new LdapError('unwillingToPerform', 'the request is too long for a transaction; send it alone');
  return withSessionRights(context, request, () => {
    const { proxiedAuthorization: authzId } = context.controls;
    return authzId === undefined ? dispatch(context, request, reply) : performProxied(context, authzId, request, reply);
  });
}

/** Runs an operation as the identity that the proxied authorization control names (RFC 4370). */
async function performProxied(
  context: Context,
  authzId: string,
  request: Exclude<AnsweredRequest, { op: 'bind' }>,
  reply: SearchReply,
): Promise<Outcome> {
  const { controls, session: ownSession } = context;
  if (request.op === 'extended' && request.oid === ExtendedOid.startTls)
    throw new LdapError('unavailableCriticalExtension', 'proxied authorization does not go with StartTLS');
  if (controls.sync || controls.persistentSearch)
    throw new LdapError('unwillingToPerform', 'a search that waits for changes runs as the client itself');
  const session = await proxiedSession(context, authzId);
  context.proxiedDn = session.dn;
  context.session = session;
  try {
    return await withSessionRights(context, request, () => dispatch(context, request, reply));
  } finally {
    context.session = ownSession;
  }
}

/** Calls `work` when the rights of the session are known, unless the password has to be changed first. */
function withSessionRights(context: Context, request: AnsweredRequest, work: () => Maybe<Outcome>): Maybe<Outcome> {
  const { identity } = context.session;
  if (identity.kind === 'user' && identity.mustChange && !isAllowedAfterReset(context, request))
    return policyRefusalOutcome(context, resetError());
  // Sets `session.rights`, which decides all later access checks.
  const rights = orLastKnown(sessionRights(context), context.session.rights, () => needsNoStore(context, request));
  return isPromise(rights) ? rights.then(work) : work();
}

/** Whether the request is allowed after a bind with a reset password: extended operations and changing the password. */
function isAllowedAfterReset({ services: { schema }, session }: Context, request: AnsweredRequest): boolean {
  if (request.op === 'extended') return true;
  if (request.op !== 'modify') return false;
  const { changes } = request;
  const isPasswordChange = ({ attribute: { type } }: (typeof changes)[number]): boolean => {
    const description = schema.describe(type);
    return description !== undefined && isCredential(description);
  };
  if (!schema.parseDn(request.dn).norm.equals(schema.parseDn(session.dn).norm)) return false;
  return changes.every(isPasswordChange) && changes.some(({ operation }) => operation !== 'delete');
}

function dispatch(
  context: Context,
  request: Exclude<AnsweredRequest, { op: 'bind' }>,
  reply: SearchReply,
): Maybe<Outcome> {
  const { assertion, dontUseCopy } = context.controls;
  switch (request.op) {
    case 'search':
      if (dontUseCopy) refuseCopy(context, request.base, request.scope);
      if (!assertion) return startSearch(context, request, reply);
      return requireAssertion(context, request).then(() => startSearch(context, request, reply));
    case 'compare':
      if (dontUseCopy) refuseCopy(context, request.dn, 'base');
      if (!assertion) return compare(context, request);
      return compareAsserted(context, request.dn, () => compare(context, request));
    case 'modify':
      return modify(context, request);
    case 'add':
      return add(context, request);
    case 'delete':
      return deleteEntry(context, request);
    case 'modifyDN':
      return modifyDn(context, request);
    case 'extended':
      if (request.oid === ExtendedOid.endTransaction) return endTransaction(context, request, perform);
      return extendedOperation(context, request, reply);
  }
}

function startSearch(context: Context, request: SearchRequest, plainReply: SearchReply): Maybe<Outcome> {
  const { controls } = context;
  const reply = viewedReply(context, plainReply);
  if (isSorted(controls)) return sortedSearch(context, request, reply);
  if (controls.asOf !== undefined) return searchFormer(context, request, reply);
  if (controls.sync) return syncSearch(context, request, reply);
  if (controls.persistentSearch) return persistentSearch(context, request, reply);
  return (controls.showDeleted ? searchDeleted : search)(context, request, reply);
}

/** Refers the client of a replica to the primary (RFC 6171 §3). Entries that the server makes are no copies. */
function refuseCopy({ services }: Context, target: string, scope: Scope): void {
  const { primaryLink, virtual, schema } = services;
  if (primaryLink && !virtual.find(schema.parseDn(target), scope)) throw primaryReferral(primaryLink.urls);
}

/** Delete (RFC 4511 §4.8). */
async function deleteEntry(context: Context, request: DeleteRequest): Promise<Outcome> {
  const { services } = context;
  requireRightsFor(context, 'delete');
  const dn = services.schema.parseDn(request.dn);
  refuseVirtual(context, dn);
  const more = { refuseLong: services.longWorker !== undefined, tree: context.controls.treeDelete };
  return runWrite(context, dn, (options) => services.partition.delete(dn, actorOf(context), { ...options, ...more }));
}

/** Modify DN (RFC 4511 §4.9). */
async function modifyDn(context: Context, request: ModifyDnRequest): Promise<Outcome> {
  const { services } = context;
  requireRightsFor(context, 'modifyDN');
  const dn = services.schema.parseDn(request.dn);
  const { newRdn, deleteOldRdn, newSuperior } = request;
  refuseVirtual(context, dn);
  if (newSuperior) refuseVirtual(context, services.schema.parseDn(newSuperior));
  const target = { newRdn, deleteOldRdn, newSuperior };
  const refuseLong = services.longWorker !== undefined;
  return runWrite(context, dn, (options) =>
    services.partition.rename(dn, target, actorOf(context), { ...options, refuseLong }),
  );
}

/** Add (RFC 4511 §4.7). */
async function add(context: Context, request: AddRequest): Promise<Outcome> {
  const { services } = context;
  requireRightsFor(context, 'add');
  if (request.attributes.length === 0)
    throw new LdapError('protocolError', 'an entry to add has at least one attribute, its objectClass');
  refuseRepeated(services.schema, request.attributes);
  const dn = services.schema.parseDn(request.dn);
  refuseVirtual(context, dn);
  const write = (options: WriteOptions) =>
    runWrite(context, dn, (controlOptions) =>
      services.partition.add(dn, request.attributes, actorOf(context), { ...controlOptions, ...options }),
    );
  if (!request.attributes.some((a) => isPasswordAttribute(services.schema, a.type))) return write({});
  requireConfidential(context);
  return runPasswordChange(context, async () => {
    requireOwnPassword(context.session.identity);
    const check = await newEntryCheck(context, dn, request.attributes);
    const passwords = request.attributes.filter(({ type }) => isPasswordAttribute(services.schema, type));
    let hashed: Promise<readonly PartialAttribute[]> | undefined;
    // Called once rights, place and schema allow the entry, in each attempt.
    const completeNew = async (entry: Target) => {
      const age = (await check?.(entry)) ?? [];
      hashed ??= services.hashing.hashAttributes(passwords, [], new OperationSource(context));
      return [...(await hashed), ...age];
    };
    return write({ completeNew });
  });
}

/** Refuses an attribute that is in the list twice, under whichever of its names (RFC 4511 §4.1.8). */
function refuseRepeated(schema: Schema, attributes: readonly PartialAttribute[]): void {
  const keys = new Set<string>();
  for (const { type } of attributes) {
    const description = schema.describe(type);
    if (!description) continue;
    const key = attributeKey(description);
    if (keys.has(key)) {
      const problem = `attribute '${description.text}' is given twice; give it once, with all its values`;
      throw new LdapError('attributeOrValueExists', problem);
    }
    keys.add(key);
  }
}

/** Compare (RFC 4511 §4.10). */
function compare(context: Context, request: CompareRequest): Maybe<Outcome> {
  const { schema } = context.services;
  const dn = schema.parseDn(request.dn);
  const description = schema.requireComparable(request.attribute);
  const virtualTree = context.services.virtual.find(dn, 'base');
  if (virtualTree) return chain(compareVirtual(context, virtualTree, dn, request), compareOutcome);
  const viewer = viewerOf(context);
  if (description.type.secret) {
    requireConfidential(context);
    return comparePassword(context, dn, request);
  }
  return isStateAttribute(description)
    ? compareState(context, dn, request)
    : compareStored(context, viewer, dn, request);
}

function compareStored(
  { services, controls }: Context,
  viewer: Viewer,
  dn: Dn,
  request: CompareRequest,
): Maybe<Outcome> {
  const directGroupsOnly = !services.config.groups.nested;
  const { manageDsaIT } = controls;
  const options = {
    manageDsaIT,
    refuseLong: services.longWorker !== undefined,
    directGroupsOnly,
  };
  const isEqual = services.partition.compare(dn, request.attribute, request.value, viewer, options);
  return chain(isEqual, compareOutcome);
}

function compareOutcome(isEqual: boolean): Outcome {
  return isEqual ? COMPARE_TRUE : COMPARE_FALSE;
}

/** Compares with the account state that binds have stored; without stored state, with the values in the entry. */
async function compareState(context: Context, dn: Dn, request: CompareRequest): Promise<Outcome> {
  const { services } = context;
  const { rights } = requestRights(context) ?? {};
  const description = services.schema.requireComparable(request.attribute);
  const viewer = viewerOf(context);
  const foundEntry = await services.partition.findVisible(dn, viewer);
  if (rights && !rights.sightOf(foundEntry).allows('compare', description))
    throw rights.missingError('compare', foundEntry, description);
  const states = await readStateValues(services, foundEntry.node.id);
  const values = states?.[description.type.name as StateAttribute] ?? [];
  if (values.length === 0 && (!states || description.type.name === 'pwdAccountLockedTime'))
    return compareStored(context, viewer, dn, request);
  if (values.length === 0) throw new LdapError('noSuchAttribute', `the entry has no attribute '${description.text}'`);
  const rule = description.type.equality!;
  const normValue = rule.normalizeAssertion(request.value);
  if (!normValue)
    throw new LdapError('invalidAttributeSyntax', `the value is not of the syntax of '${description.text}'`);
  return compareOutcome(values.some((value) => rule.normalize(value)?.equals(normValue)));
}

/** Compares a password by verifying it. Other secrets cannot be compared. */
async function comparePassword(context: Context, dn: Dn, request: CompareRequest): Promise<Outcome> {
  const { services, session } = context;
  const requester = session.identity;
  requireOwnPassword(requester);
  const { rights } = requestRights(context) ?? {};
  const foundEntry = await services.partition.findVisible(dn, viewerOf(context));
  const description = services.schema.requireComparable(request.attribute);
  if (!isPasswordAttribute(services.schema, request.attribute))
    throw new LdapError('insufficientAccessRights', `attribute '${request.attribute}' may not be compared`);
  if (rights && !rights.sightOf(foundEntry).allows('compare', description))
    throw rights.missingError('compare', foundEntry, description);
  const credentials = services.credentialReader.read(foundEntry.row);
  const { passwords } = credentials;
  await requireValidBind(services, session, requester, { id: foundEntry.node.id, credentials });
  // Secrets take no options, so no entry has a value under one.
  if (passwords.length === 0 || description.options.length > 0)
    throw new LdapError('noSuchAttribute', `the entry has no '${request.attribute}'`);
  const matcher = new PasswordMatcher(services.hashing.policy, new OperationSource(context));
  const isRight = await verifyInSession(context, foundEntry.node.id, credentials, () =>
    matcher.findMatch(request.value, passwords),
  );
  return compareOutcome(isRight);
}
