import type { NumberedChange } from '../../partition/feed/change-reader.js';
import { ChangeType, encodeEntryChange } from '../../protocol/controls/persistent-search.js';
import type { Control, SearchRequest } from '../../protocol/ldap-messages.js';
import { ControlOid } from '../../protocol/oids.js';
import type { Context, SearchReply } from '../request/context.js';
import { type Outcome, SUCCESS } from '../words/outcome.js';
import { FollowedSearch } from './followed-search.js';

const TYPES = { add: 'add', restore: 'add', modify: 'modify', rename: 'modDN', delete: 'delete' } as const;

/** A search that goes on with entries as they change (draft-ietf-ldapext-psearch-03), until the client ends it. */
export async function persistentSearch(context: Context, request: SearchRequest, reply: SearchReply): Promise<Outcome> {
  const { changeTypes, changesOnly, returnECs } = context.controls.persistentSearch!;
  const search = new FollowedSearch(context, request, reply, true);
  const start = await context.services.partition.feed.latest();
  if (!changesOnly) await search.searchAll((hit) => search.send(hit, undefined));
  const send = async (change: NumberedChange): Promise<void> => {
    const type = ChangeType[TYPES[change.op]];
    if (!(changeTypes & type)) return;
    const previousDn =
      returnECs && change.op === 'rename' && (await search.seesAt(change.id, change.dn)) ? change.dn : undefined;
    const control = returnECs ? entryChange(type, change.number, previousDn) : undefined;
    if (change.op === 'delete') await search.sendDeleted(change, control);
    else await search.sendIfFound(change.id, control);
  };
  await search.follow(
    start,
    async ({ changes }) => {
      for (const change of changes) {
        await search.proceed();
        await send(change);
      }
    },
    () => undefined,
  );
  return SUCCESS;
}

function entryChange(type: number, number: bigint, previousDn: Buffer | undefined): Control {
  const value = encodeEntryChange(type, previousDn, Number(number));
  return { oid: ControlOid.entryChange, critical: false, value };
}
