import { LdapError } from '../../ldap/ldap-error.js';
import type { PartialAttribute } from '../../ldap/ldap-types.js';
import type { Target } from '../../partition/index.js';
import { attributeKey } from '../../partition/model/draft.js';
import type { AddRequest, DeleteRequest, ModifyDnRequest, Request } from '../../protocol/ldap-messages.js';
import type { Schema } from '../../schema/schema.js';
import { isCredential } from '../passwords/credentials.js';
import { isPasswordAttribute } from '../passwords/password-hashing.js';
import { actorOf, OperationSource, requireConfidential, requireRightsFor } from '../request/access.js';
import type { Context, SearchReply } from '../request/context.js';
import { newEntryCheck } from '../request/password-change.js';
import { policyRefusalOutcome, requireOwnPassword, resetError, runPasswordChange } from '../request/password-policy.js';
import { sessionRights } from '../request/rights.js';
import { orLastKnown } from '../words/last-known.js';
import { isPromise, type Maybe } from '../words/maybe.js';
import { type Outcome, SUCCESS } from '../words/outcome.js';
import { bind } from './bind.js';
import { compare } from './compare.js';
import { extendedOperation } from './extended/extended.js';
import { modify } from './modify.js';
import { persistentSearch } from './persistent-search.js';
import { search } from './search.js';
import { needsNoStore, refuseVirtual } from './search-virtual.js';
import { syncSearch } from './sync-search.js';

export type AnsweredRequest = Exclude<Request, { op: 'unbind' | 'abandon' }>;

/** Runs an operation, synchronously when possible. Throws or rejects with the error that ends the operation. */
export function perform(context: Context, request: AnsweredRequest, reply: SearchReply): Maybe<Outcome> {
  if (request.op === 'bind') return bind(context, request);
  const { identity } = context.session;
  if (identity.kind === 'user' && identity.mustChange && !isAllowedAfterReset(context, request))
    return policyRefusalOutcome(context, resetError());
  // Sets `session.rights`, which decides all later access checks.
  const rights = orLastKnown(sessionRights(context), context.session.rights, () => needsNoStore(context, request));
  if (isPromise(rights)) return rights.then(() => dispatch(context, request, reply));
  return dispatch(context, request, reply);
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
  switch (request.op) {
    case 'search':
      if (context.controls.sync) return syncSearch(context, request, reply);
      return (context.controls.persistentSearch ? persistentSearch : search)(context, request, reply);
    case 'compare':
      return compare(context, request);
    case 'modify':
      return modify(context, request);
    case 'add':
      return add(context, request);
    case 'delete':
      return deleteEntry(context, request);
    case 'modifyDN':
      return modifyDn(context, request);
    case 'extended':
      return extendedOperation(context, request, reply);
  }
}

/** Delete (RFC 4511 §4.8). */
async function deleteEntry(context: Context, request: DeleteRequest): Promise<Outcome> {
  const { services, controls } = context;
  requireRightsFor(context, 'delete');
  const dn = services.schema.parseDn(request.dn);
  refuseVirtual(context, dn);
  await services.partition.delete(dn, actorOf(context), {
    manageDsaIT: controls.manageDsaIT,
    refuseLong: services.longWorker !== undefined,
  });
  return SUCCESS;
}

/** Modify DN (RFC 4511 §4.9). */
async function modifyDn(context: Context, request: ModifyDnRequest): Promise<Outcome> {
  const { services, controls } = context;
  requireRightsFor(context, 'modifyDN');
  const dn = services.schema.parseDn(request.dn);
  const { newRdn, deleteOldRdn, newSuperior } = request;
  refuseVirtual(context, dn);
  if (newSuperior) refuseVirtual(context, services.schema.parseDn(newSuperior));
  const options = { manageDsaIT: controls.manageDsaIT, refuseLong: services.longWorker !== undefined };
  await services.partition.rename(dn, { newRdn, deleteOldRdn, newSuperior }, actorOf(context), options);
  return SUCCESS;
}

/** Add (RFC 4511 §4.7). */
async function add(context: Context, request: AddRequest): Promise<Outcome> {
  const { services, controls } = context;
  requireRightsFor(context, 'add');
  if (request.attributes.length === 0)
    throw new LdapError('protocolError', 'an entry to add has at least one attribute, its objectClass');
  refuseRepeated(services.schema, request.attributes);
  const dn = services.schema.parseDn(request.dn);
  refuseVirtual(context, dn);
  const { manageDsaIT } = controls;
  if (!request.attributes.some((a) => isPasswordAttribute(services.schema, a.type))) {
    await services.partition.add(dn, request.attributes, actorOf(context), { manageDsaIT });
    return SUCCESS;
  }
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
    await services.partition.add(dn, request.attributes, actorOf(context), { manageDsaIT, completeNew });
    return SUCCESS;
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
