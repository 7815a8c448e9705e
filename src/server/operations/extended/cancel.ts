import { decodeCancel } from '../../../protocol/extended/cancel.js';
import type { ExtendedRequest } from '../../../protocol/ldap-messages.js';
import type { Context } from '../../request/context.js';
import { chain, type Maybe } from '../../words/maybe.js';
import { type Outcome, SUCCESS } from '../../words/outcome.js';

/** RFC 3909: both operations are answered, the canceled one with `canceled`. */
export function cancel({ id, transport }: Context, request: ExtendedRequest): Maybe<Outcome> {
  return chain(transport.cancel(decodeCancel(request.value), id), () => SUCCESS);
}
