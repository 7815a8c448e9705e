import type { DeleteRequest } from '../../protocol/ldap-messages.js';
import { actorOf, requireRightsFor } from '../request/access.js';
import type { Context } from '../request/context.js';
import { type Outcome, SUCCESS } from '../words/outcome.js';

/** Delete (RFC 4511 §4.8). */
export async function deleteEntry(context: Context, request: DeleteRequest): Promise<Outcome> {
  const { services, controls } = context;
  requireRightsFor(context, 'delete');
  const dn = services.schema.parseDn(request.dn);
  await services.partition.delete(dn, actorOf(context), {
    manageDsaIT: controls.manageDsaIT,
    refuseLong: services.longWorker !== undefined,
  });
  return SUCCESS;
}
