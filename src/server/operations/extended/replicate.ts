import { LdapError } from '../../../ldap/ldap-error.js';
import type { AccountState } from '../../../partition/model/account-state.js';
import type { ExtendedRequest } from '../../../protocol/ldap-messages.js';
import { ExtendedOid } from '../../../protocol/oids.js';
import { decodePlain } from '../../../replica/plain.js';
import { mergeAll } from '../../processes/replica-states.js';
import { requireReplica } from '../../request/access.js';
import type { Context, SearchReply } from '../../request/context.js';
import { type Outcome, SUCCESS } from '../../words/outcome.js';

/** Sends a copy, or changes until the replica ends the connection, as intermediate responses. */
export async function replicate(context: Context, { value }: ExtendedRequest, reply: SearchReply): Promise<Outcome> {
  const replica = await requireReplica(context);
  const { intermediate } = reply;
  const connection = context.session.connectionNumber;
  if (!intermediate) throw new LdapError('unwillingToPerform', 'this server sends no intermediate responses');
  const controller = new AbortController();
  const forget = context.onAbortWhileWaiting(() => controller.abort());
  try {
    for await (const message of context.services.primary.messages(replica, connection, value, controller.signal))
      await intermediate(ExtendedOid.replicate, message);
    return SUCCESS;
  } finally {
    forget();
  }
}

export async function acknowledge(context: Context, { value }: ExtendedRequest): Promise<Outcome> {
  const position = value?.toString('latin1') ?? '';
  if (!/^\d{1,20}$/.test(position)) throw new LdapError('protocolError', 'an acknowledgement is a number of the log');
  await requireReplica(context);
  context.services.primary.acknowledge(context.session.connectionNumber, BigInt(position));
  return SUCCESS;
}

/** Merges what a replica has recorded of binds while it did not reach this server. */
export async function handOn(context: Context, { value }: ExtendedRequest): Promise<Outcome> {
  const { partition, primaryLink } = context.services;
  await requireReplica(context);
  if (!value) throw new LdapError('protocolError', 'the states are missing');
  if (primaryLink) await primaryLink.handOn(value);
  else await mergeAll(partition, decodePlain(value) as [string, AccountState][]);
  return SUCCESS;
}
