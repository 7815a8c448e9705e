import type { ModifyDnRequest } from '../../protocol/ldap-messages.js';
import { actorOf, requireKind } from '../request/access.js';
import type { Context } from '../request/context.js';
import { type Outcome, SUCCESS } from '../words/outcome.js';

/** RFC 4511 §4.9. */
export async function modifyDn(context: Context, request: ModifyDnRequest): Promise<Outcome> {
  const { services, controls } = context;
  requireKind(context, 'modifyDN');
  const dn = services.schema.parseDn(request.dn);
  const { newRdn, deleteOldRdn, newSuperior } = request;
  const options = { manageDsaIT: controls.manageDsaIT, leaveLong: services.long !== undefined };
  await services.partition.rename(dn, { newRdn, deleteOldRdn, newSuperior }, actorOf(context), options);
  return SUCCESS;
}
