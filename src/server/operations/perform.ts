import type { Request } from '../../protocol/messages.js';
import type { Context, SearchReply } from '../request/context.js';
import type { Maybe } from '../words/maybe.js';
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
  switch (request.op) {
    case 'search':
      return search(context, request, reply);
    case 'bind':
      return bind(context, request);
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
