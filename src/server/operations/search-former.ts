import { KeyedLock } from '../../fair/keyed-lock.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { FormerHit } from '../../partition/history/search-as-of.js';
import type { SearchRequest } from '../../protocol/ldap-messages.js';
import type { Context, SearchReply } from '../request/context.js';
import { type Outcome, SUCCESS } from '../words/outcome.js';
import { FollowedSearch } from './followed-search.js';

/** The changes that a search reads are in memory: searches of a process take turns, and each reads no more of them. */
const MAX_CHANGES = 250_000;
const turns = new KeyedLock();

/** A search of the directory as it was at the moment of the control (docs/formats/as-of.md), without pages. */
export async function searchFormer(context: Context, request: SearchRequest, reply: SearchReply): Promise<Outcome> {
  const { controls, services } = context;
  if (controls.sync || controls.persistentSearch)
    throw new LdapError('unwillingToPerform', 'a search as of a moment follows no changes');
  const search = new FollowedSearch(context, request, reply, false);
  const { partition } = services;
  await turns.acquire('');
  try {
    await search.proceed();
    const { params } = search;
    const send = async (hit: FormerHit): Promise<void> => {
      await search.proceed();
      if (search.params !== params) throw new LdapError('busy', 'the access rules have changed; repeat the search');
      await search.send(hit, undefined);
    };
    await partition.searchAsOf(params, controls.asOf!, send, MAX_CHANGES);
  } finally {
    turns.release('');
  }
  return SUCCESS;
}
