import type { ModifyDnRequest } from '../../protocol/messages.js';
import { actorOf, requireAdmin } from '../access.js';
import type { Context } from '../context.js';
import { type Outcome, SUCCESS } from '../outcome.js';

/** RFC 4511 §4.9. */
export async function modifyDn({ services, session, controls }: Context, request: ModifyDnRequest): Promise<Outcome> {
  requireAdmin(session, 'rename entries');
  const dn = services.schema.parseDn(request.dn);
  const { newRdn, deleteOldRdn, newSuperior } = request;
  const options = { manageDsaIT: controls.manageDsaIT, leaveLong: services.long !== undefined };
  await services.partition.rename(dn, { newRdn, deleteOldRdn, newSuperior }, actorOf(session), options);
  return SUCCESS;
}
