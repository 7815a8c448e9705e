import { LdapError } from '../../../ldap/ldap-error.js';
import type { Modification, PartialAttribute } from '../../../ldap/ldap-types.js';
import { chain, type Maybe } from '../../../partition/index.js';
import type { AccountState } from '../../../partition/model/account-state.js';
import { generalizedTime } from '../../../partition/model/csn.js';
import type { SplitChanges, Target } from '../../../partition/model/directory-types.js';
import {
  type ApplicationPasswordFields,
  decodeApplicationPasswords,
  encodeAddedPassword,
  encodeListedPasswords,
} from '../../../protocol/extended/application-passwords.js';
import { decodeCancel } from '../../../protocol/extended/cancel.js';
import type { ExtendedRequest } from '../../../protocol/ldap-messages.js';
import { ExtendedOid } from '../../../protocol/oids.js';
import { decodePlain } from '../../../replica/wire.js';
import type { Dn } from '../../../schema/schema-types.js';
import { generalizedTimeMs } from '../../../schema/time.js';
import {
  APPLICATION_PASSWORD,
  type ApplicationLimits,
  type ApplicationPassword,
  createApplicationPassword,
  parseApplicationPasswords,
  parseNetworks,
} from '../../passwords/application-password.js';
import { mergeAll } from '../../processes/replica-states.js';
import { actorOf, requireAdmin, requireBound, requireConfidential, requireReplica } from '../../request/access.js';
import type { Context, SearchReply } from '../../request/context.js';
import { requireNoReset, requireOwnPassword, runPasswordChange } from '../../request/password-policy.js';
import { requireValidBind } from '../../request/validity.js';
import { type Outcome, SUCCESS } from '../../words/outcome.js';
import { startTransaction } from '../transaction.js';
import { passwordModify } from './password-modify.js';

/** Dispatches an extended operation by its OID (RFC 4511 §4.12). */
export function extendedOperation(context: Context, request: ExtendedRequest, reply: SearchReply): Maybe<Outcome> {
  switch (request.oid) {
    case ExtendedOid.whoAmI:
      return whoAmI(context, request);
    case ExtendedOid.startTls:
      return startTls(context, request);
    case ExtendedOid.passwordModify:
      return passwordModify(context, request);
    case ExtendedOid.applicationPasswords:
      return applicationPasswords(context, request);
    case ExtendedOid.replicate:
      return replicate(context, request, reply);
    case ExtendedOid.replicated:
      return acknowledge(context, request);
    case ExtendedOid.handOn:
      return handOn(context, request);
    case ExtendedOid.startTransaction:
      return startTransaction(context, request);
    case ExtendedOid.cancel:
      return cancel(context, request);
    default:
      throw new LdapError('protocolError', `extended operation ${request.oid} is not supported`);
  }
}

/** StartTLS (RFC 4511 §4.14). The handshake begins after the response has been sent. */
function startTls({ id, session, transport, outstanding }: Context, request: ExtendedRequest): Outcome {
  if (request.value !== undefined) throw new LdapError('protocolError', 'StartTLS: the request has no value');
  if (transport.isEncrypted) throw new LdapError('operationsError', 'StartTLS: TLS is in place already');
  if (outstanding.hasOthers(id)) throw new LdapError('operationsError', 'StartTLS: other operations are outstanding');
  transport.startTls();
  session.transactions.abortAll();
  return { ...SUCCESS, oid: ExtendedOid.startTls };
}

/** Who Am I (RFC 4532): returns the authorization identity; empty when anonymous. */
function whoAmI({ session }: Context, request: ExtendedRequest): Outcome {
  if (request.value !== undefined) throw new LdapError('protocolError', 'who am I: the request has no value');
  const { dn } = session;
  return { ...SUCCESS, value: Buffer.from(dn === '' ? '' : `dn:${dn}`) };
}

/** Cancel (RFC 3909). Both operations are answered; the canceled operation gets `canceled`. */
function cancel({ id, outstanding }: Context, request: ExtendedRequest): Maybe<Outcome> {
  return chain(outstanding.cancel(decodeCancel(request.value), id), () => SUCCESS);
}

/**
 * Application passwords (docs/server.md). Users may create, list and remove application passwords of their own entry if
 * they may replace its password. The administrator may do so for all entries.
 */
function applicationPasswords(context: Context, request: ExtendedRequest): Promise<Outcome> {
  const fields = decodeApplicationPasswords(request.value);
  const { services, session } = context;
  return runPasswordChange(context, async () => {
    requireBound(session, 'have application passwords');
    requireConfidential(context);
    requireOwnPassword(session.identity);
    requireNoReset(session.identity);
    const ownDn = services.schema.parseDn(session.dn);
    const dn = fields.entry === undefined ? ownDn : services.schema.parseDn(fields.entry);
    if (session.isAdmin && dn.norm.equals(ownDn.norm))
      throw new LdapError('unwillingToPerform', 'the administrator has no application passwords; name an entry');
    if (!dn.norm.equals(ownDn.norm)) requireAdmin(session, 'see and change application passwords of others');
    switch (fields.action) {
      case 'add':
        return { ...SUCCESS, value: encodeAddedPassword(await addPassword(context, dn, fields)) };
      case 'list':
        return { ...SUCCESS, value: encodeListedPasswords(await listPasswords(context, dn)) };
      case 'remove':
        await removePassword(context, dn, fields.name);
        return SUCCESS;
    }
  });
}

async function addPassword(context: Context, dn: Dn, fields: ApplicationPasswordFields): Promise<string> {
  const limits = parseLimits(context, fields);
  let clearPassword = '';
  await changePasswords(context, dn, (present) => {
    const { value, clearPassword: clear } = createApplicationPassword(limits, present, Date.now());
    clearPassword = clear;
    return { operation: 'add', attribute: passwordAttribute(value) };
  });
  return clearPassword;
}

function parseLimits({ services }: Context, fields: ApplicationPasswordFields): ApplicationLimits {
  const { name, networks = '', usedBy, expires } = fields;
  const expiresMs = expires === undefined ? undefined : generalizedTimeMs(Buffer.from(expires));
  if (expires !== undefined && expiresMs === undefined)
    throw new LdapError('constraintViolation', 'expires is no time; write it like 20301231235959Z');
  const networkTexts = networks.split(' ').filter((word) => word !== '');
  const usedByDn = usedBy === undefined ? undefined : services.schema.parseDn(usedBy).text;
  return { name, networks: parseNetworks(networkTexts), usedBy: usedByDn, expires: expiresMs };
}

function passwordAttribute(value: Buffer): PartialAttribute {
  return { type: APPLICATION_PASSWORD, values: [value] };
}

async function removePassword(context: Context, dn: Dn, name: string): Promise<void> {
  await changePasswords(context, dn, (present) => {
    const removedPassword = present.find((other) => other.name === name);
    if (!removedPassword) throw new LdapError('noSuchAttribute', 'there is no application password with this name');
    return { operation: 'delete', attribute: passwordAttribute(Buffer.from(removedPassword.value)) };
  });
}

/** Changes the application passwords of the entry. Each attempt reads them and asks `changeFor` for the change. */
async function changePasswords(
  context: Context,
  dn: Dn,
  changeFor: (present: readonly ApplicationPassword[]) => Modification,
): Promise<void> {
  const { services, session } = context;
  const requester = session.identity;
  await requireRight(context, dn);
  const makeChanges = async ({ id, row }: Target): Promise<SplitChanges> => {
    const credentials = services.credentialReader.read(row);
    await requireValidBind(services, session, requester, { id, credentials });
    return { clientChanges: [], serverChanges: [changeFor(parseApplicationPasswords(credentials.applications))] };
  };
  await services.partition.modify(dn, makeChanges, actorOf(context), { touchedDescriptions: [APPLICATION_PASSWORD] });
}

async function requireRight(context: Context, dn: Dn): Promise<void> {
  const replaceChange = { operation: 'replace', attribute: { type: 'userPassword', values: [] } } as const;
  await context.services.partition.requireAllowed(dn, [replaceChange], actorOf(context));
}

async function listPasswords(context: Context, dn: Dn): Promise<Parameters<typeof encodeListedPasswords>[0]> {
  const { partition, credentialReader } = context.services;
  await requireRight(context, dn);
  const foundRow = await partition.findRow(dn);
  if (!foundRow) throw new LdapError('noSuchObject', 'there is no entry with this name');
  const { applications } = credentialReader.read(foundRow.row);
  const uses = (await partition.accountState(foundRow.id))?.uses ?? [];
  return parseApplicationPasswords(applications).map(({ id, name, networks, usedBy, expires, created }) => {
    const lastUse = uses.find((use) => use.id === id)?.time;
    return {
      name,
      networks: networks.length === 0 ? undefined : networks.map(({ text }) => text).join(' '),
      usedBy,
      expires: expires === undefined ? undefined : generalizedTime(expires),
      created: generalizedTime(created),
      lastUse: lastUse === undefined ? undefined : generalizedTime(lastUse),
    };
  });
}

/** Sends a copy, or changes until the replica ends the connection, as intermediate responses. */
async function replicate(context: Context, { value }: ExtendedRequest, reply: SearchReply): Promise<Outcome> {
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

async function acknowledge(context: Context, { value }: ExtendedRequest): Promise<Outcome> {
  const position = value?.toString('latin1') ?? '';
  if (!/^\d{1,20}$/.test(position)) throw new LdapError('protocolError', 'an acknowledgement is a number of the log');
  await requireReplica(context);
  context.services.primary.acknowledge(context.session.connectionNumber, BigInt(position));
  return SUCCESS;
}

/** Merges what a replica has recorded of binds while it did not reach this server. */
async function handOn(context: Context, { value }: ExtendedRequest): Promise<Outcome> {
  const { partition, primaryLink } = context.services;
  await requireReplica(context);
  if (!value) throw new LdapError('protocolError', 'the states are missing');
  if (primaryLink) await primaryLink.handOn(value);
  else await mergeAll(partition, decodePlain(value) as [string, AccountState][]);
  return SUCCESS;
}
