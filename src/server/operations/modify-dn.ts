import type { ModifyDnRequest } from '../../protocol/ldap-messages.js';
import { actorOf, requireRightsFor } from '../request/access.js';
import type { Context } from '../request/context.js';
import { type Outcome, SUCCESS } from '../words/outcome.js';

/** Modify DN (RFC 4511 §4.9). */
export async function modifyDn(context: Context, request: ModifyDnRequest): Promise<Outcome> {
  const { services, controls } = context;
  requireRightsFor(context, 'modifyDN');
  const dn = services.schema.parseDn(request.dn);
  const { newRdn, deleteOldRdn, newSuperior } = request;
  const options = { manageDsaIT: controls.manageDsaIT, refuseLong: services.longWorker !== undefined };
  await services.partition.rename(dn, { newRdn, deleteOldRdn, newSuperior }, actorOf(context), options);
  return SUCCESS;
}
