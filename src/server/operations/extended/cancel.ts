import { decodeCancel } from '../../../protocol/extended/cancel.js';
import type { ExtendedRequest } from '../../../protocol/ldap-messages.js';
import type { Context } from '../../request/context.js';
import { chain, type Maybe } from '../../words/maybe.js';
import { type Outcome, SUCCESS } from '../../words/outcome.js';

/** Cancel (RFC 3909). Both operations are answered; the canceled operation gets `canceled`. */
export function cancel({ id, outstanding }: Context, request: ExtendedRequest): Maybe<Outcome> {
  return chain(outstanding.cancel(decodeCancel(request.value), id), () => SUCCESS);
}
