import { LdapError } from '../../ldap/ldap-error.js';
import type { AddRequest } from '../../protocol/ldap-messages.js';
import { isPasswordAttribute } from '../passwords/password-hashing.js';
import { actorOf, OperationSource, requireConfidential, requireRightsFor } from '../request/access.js';
import type { Context } from '../request/context.js';
import { newEntryCheck } from '../request/password-change.js';
import { requireOwnPassword, runPasswordChange } from '../request/password-policy.js';
import { type Outcome, SUCCESS } from '../words/outcome.js';

/** Add (RFC 4511 §4.7). */
export async function add(context: Context, request: AddRequest): Promise<Outcome> {
  const { services, controls } = context;
  requireRightsFor(context, 'add');
  if (request.attributes.length === 0)
    throw new LdapError('protocolError', 'an entry to add has at least one attribute, its objectClass');
  const dn = services.schema.parseDn(request.dn);
  const { manageDsaIT } = controls;
  if (!request.attributes.some((a) => isPasswordAttribute(services.schema, a.type))) {
    await services.partition.add(dn, request.attributes, actorOf(context), { manageDsaIT });
    return SUCCESS;
  }
  requireConfidential(context);
  return runPasswordChange(context, async () => {
    requireOwnPassword(context.session.identity);
    const completeNew = await newEntryCheck(context, dn, request.attributes);
    const attributes = await services.hashing.hashAttributes(request.attributes, [], new OperationSource(context));
    await services.partition.add(dn, attributes, actorOf(context), { manageDsaIT, completeNew });
    return SUCCESS;
  });
}
