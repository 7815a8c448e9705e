import type { AddRequest } from '../../protocol/messages.js';
import { actorOf, requireAdmin, requireConfidential } from '../access.js';
import type { Context } from '../context.js';
import { type Outcome, SUCCESS } from '../outcome.js';

/** RFC 4511 §4.7. */
export async function add(context: Context, request: AddRequest): Promise<Outcome> {
  const { services, session, controls } = context;
  requireAdmin(session, 'add entries');
  const dn = services.schema.parseDn(request.dn);
  if (request.attributes.some((a) => services.passwords.holdsPasswords(a.type))) requireConfidential(context);
  const attributes = [];
  for (const attribute of request.attributes) attributes.push(await services.passwords.protect(attribute));
  await services.partition.add(dn, attributes, actorOf(session), { manageDsaIT: controls.manageDsaIT });
  return SUCCESS;
}
