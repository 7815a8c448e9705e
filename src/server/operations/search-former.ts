import type { SearchRequest } from '../../protocol/ldap-messages.js';
import type { Context, SearchReply } from '../request/context.js';
import { type Outcome, SUCCESS } from '../words/outcome.js';
import { FollowedSearch } from './followed-search.js';

/** A search of the directory as it was at the moment of the control (docs/formats/as-of.md), without pages. */
export async function searchFormer(context: Context, request: SearchRequest, reply: SearchReply): Promise<Outcome> {
  const search = new FollowedSearch(context, request, reply, false);
  const { partition } = context.services;
  await partition.searchAsOf(search.params, context.controls.asOf!, (hit) => search.send(hit, undefined));
  return SUCCESS;
}
