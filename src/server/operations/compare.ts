import { LdapError } from '../../ldap/ldap-error.js';
import type { StateAttribute } from '../../partition/model/account-state.js';
import type { Viewer } from '../../partition/model/viewer.js';
import { PasswordMatcher } from '../../password/index.js';
import type { CompareRequest } from '../../protocol/ldap-messages.js';
import type { Dn } from '../../schema/schema-types.js';
import { isPasswordAttribute } from '../passwords/password-hashing.js';
import { OperationSource, requestRights, requireConfidential, viewerOf } from '../request/access.js';
import type { Context } from '../request/context.js';
import { verifyInSession } from '../request/password-change.js';
import { requireOwnPassword } from '../request/password-policy.js';
import { isStateAttribute, readStateValues } from '../request/state-attributes.js';
import { requireValidBind } from '../request/validity.js';
import { chain, type Maybe } from '../words/maybe.js';
import { COMPARE_FALSE, COMPARE_TRUE, type Outcome } from '../words/outcome.js';
import { compareVirtual } from './search-virtual.js';

/** Compare (RFC 4511 §4.10). */
export function compare(context: Context, request: CompareRequest): Maybe<Outcome> {
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
