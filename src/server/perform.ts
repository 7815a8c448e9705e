import type { Request } from '../protocol/messages.js';
import type { Context, SearchReply } from './context.js';
import type { Maybe } from './maybe.js';
import { add } from './operations/add.js';
import { bind } from './operations/bind.js';
import { compare } from './operations/compare.js';
import { deleteEntry } from './operations/delete.js';
import { extended } from './operations/extended/extended.js';
import { modify } from './operations/modify.js';
import { modifyDn } from './operations/modify-dn.js';
import { search } from './operations/search.js';
import type { Outcome } from './outcome.js';

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
