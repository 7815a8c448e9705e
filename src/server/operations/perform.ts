import type { Request } from '../../protocol/ldap-messages.js';
import { isCredential } from '../passwords/credentials.js';
import type { Context, SearchReply } from '../request/context.js';
import { refusedByPolicy, resetError } from '../request/password-policy.js';
import { sessionRights } from '../request/rights.js';
import { isPromise, type Maybe } from '../words/maybe.js';
import type { Outcome } from '../words/outcome.js';
import { add } from './add.js';
import { bind } from './bind.js';
import { compare } from './compare.js';
import { deleteEntry } from './delete.js';
import { extended } from './extended/extended.js';
import { modify } from './modify.js';
import { modifyDn } from './modify-dn.js';
import { search } from './search.js';

/** Operations that are answered. */
export type AnsweredRequest = Exclude<Request, { op: 'unbind' | 'abandon' }>;

/** Runs an operation: at once where nothing has to be waited for. Throws or rejects with what ends it. */
export function perform(context: Context, request: AnsweredRequest, reply: SearchReply): Maybe<Outcome> {
  if (request.op === 'bind') return bind(context, request);
  const { identity } = context.session;
  if (identity.kind === 'user' && identity.mustChange && !mayFollowReset(context, request))
    return refusedByPolicy(context, resetError());
  // Sets the session's rights, by which everything that follows is decided.
  const rights = sessionRights(context);
  if (isPromise(rights)) return rights.then(() => dispatch(context, request, reply));
  return dispatch(context, request, reply);
}

/** Of a bind with a password that has been reset: it may be changed, and little else be done. */
function mayFollowReset({ services: { schema }, session }: Context, request: AnsweredRequest): boolean {
  if (request.op === 'extended') return true;
  if (request.op !== 'modify') return false;
  const { changes } = request;
  const isOfPassword = ({ attribute: { type } }: (typeof changes)[number]): boolean => {
    const description = schema.describe(type);
    return description !== undefined && isCredential(description);
  };
  if (!schema.parseDn(request.dn).norm.equals(schema.parseDn(session.dn).norm)) return false;
  return changes.every(isOfPassword) && changes.some(({ operation }) => operation !== 'delete');
}

function dispatch(
  context: Context,
  request: Exclude<AnsweredRequest, { op: 'bind' }>,
  reply: SearchReply,
): Maybe<Outcome> {
  switch (request.op) {
    case 'search':
      return search(context, request, reply);
    case 'compare':
      return compare(context, request);
    case 'modify':
      return modify(context, request);
    case 'add':
      return add(context, request);
    case 'delete':
      return deleteEntry(context, request);
    case 'modifyDN':
      return modifyDn(context, request);
    case 'extended':
      return extended(context, request);
  }
}
