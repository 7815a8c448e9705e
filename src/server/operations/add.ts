import { LdapError } from '../../ldap/ldap-error.js';
import type { AddRequest } from '../../protocol/ldap-messages.js';
import { isPasswordAttribute } from '../passwords/password-hashing.js';
import { actorOf, OperationSource, requireConfidential, requireRightsFor } from '../request/access.js';
import type { Context } from '../request/context.js';
import { type Outcome, SUCCESS } from '../words/outcome.js';

/** Add (RFC 4511 §4.7). */
export async function add(context: Context, request: AddRequest): Promise<Outcome> {
  const { services, controls } = context;
  requireRightsFor(context, 'add');
  if (request.attributes.length === 0)
    throw new LdapError('protocolError', 'an entry to add has at least one attribute, its objectClass');
  const dn = services.schema.parseDn(request.dn);
  if (request.attributes.some((a) => isPasswordAttribute(services.schema, a.type))) requireConfidential(context);
  const attributes = await services.hashing.hashAttributes(request.attributes, [], new OperationSource(context));
  await services.partition.add(dn, attributes, actorOf(context), { manageDsaIT: controls.manageDsaIT });
  return SUCCESS;
}
