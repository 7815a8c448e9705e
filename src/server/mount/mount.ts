import ldapjs from 'ldapjs';
import { type Logger, pino } from 'pino';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Partition } from '../../partition/index.js';
import { decodeRequest } from '../../protocol/decode.js';
import type { Request } from '../../protocol/ldap-messages.js';
import { ExtendedOid } from '../../protocol/oids.js';
import { cipherStrength, isEncrypted } from '../connection/tls.js';
import { perform } from '../operations/perform.js';
import type { Context, Outstanding, Transport } from '../request/context.js';
import { failureOutcome } from '../request/operation.js';
import { isBindValid } from '../request/validity.js';
import { createServices, type Services } from '../services/services.js';
import { type Config, makeConfig } from '../settings/index.js';
import { readControls } from '../words/controls.js';
import { clientNetwork } from '../words/network.js';
import type { Outcome } from '../words/outcome.js';
import { ANONYMOUS, Session } from '../words/session.js';
import {
  type LdapjsHandler,
  LdapjsReply,
  type LdapjsRequest,
  type LdapjsResponse,
  type LdapjsServer,
  type MountableServer,
  type MountedConnection,
  ROUTES,
  sendOutcome,
} from './reply.js';

/** Rowan's session of an ldapjs connection, and the `bindDN` that ldapjs has for the same identity. */
interface MountedSession {
  readonly session: Session;
  bindDN: unknown;
  /** Stop the waiting operations of the connection. Called when the connection closes. */
  readonly stopCallbacks: Set<() => void>;
}

const ROOT_DN = '';

/**
 * Serves a partition from an ldapjs server, with route handlers at the root of the tree. The operations are those of
 * `RowanServer` within the limits of ldapjs: no StartTLS, abandon or cancel; requests after a bind do not wait for the
 * bind; passwords must be valid UTF-8 (docs/server.md). Routes of the program for longer DNs take precedence.
 */
export function mount(
  server: MountableServer,
  partition: Partition,
  config: Config = makeConfig(),
  log: Logger = pino({ level: 'silent' }),
): void {
  const services = createServices(partition, config, log);
  const ldapjsServer = server as unknown as LdapjsServer;
  const handler = makeHandler(services);
  for (const route of ROUTES) ldapjsServer[route](ROOT_DN, handler);
  ldapjsServer.exop(ExtendedOid.whoAmI, handler);
  ldapjsServer.exop(ExtendedOid.passwordModify, handler);
  ldapjsServer.on('error', (error) => log.debug({ error: error.message }, 'ldapjs'));
}

function makeHandler(services: Services): LdapjsHandler {
  const sessions = new WeakMap<MountedConnection, MountedSession>();
  return (request, response, next) => {
    const mountedSession = connectionSession(sessions, request.connection);
    answer(services, mountedSession, request, response).then(
      (callNext) => callNext && next(),
      (error: Error) => next(error),
    );
  };
}

/**
 * Returns the session of a connection. An anonymous bind, which ldapjs answers itself, and binds of other handlers
 * change `bindDN`; the session then becomes anonymous.
 */
function connectionSession(
  sessions: WeakMap<MountedConnection, MountedSession>,
  connection: MountedConnection,
): MountedSession {
  let mountedSession = sessions.get(connection);
  if (!mountedSession) {
    const stopCallbacks = new Set<() => void>();
    mountedSession = { session: new Session(), bindDN: connection.ldap.bindDN, stopCallbacks };
    connection.on('close', () => {
      for (const stop of [...stopCallbacks]) stop();
    });
    sessions.set(connection, mountedSession);
    // ldapjs leaves Nagle's algorithm on, which costs up to 40 ms a reply.
    connection.setNoDelay(true);
    resetAtBind(mountedSession, connection);
  }
  if (mountedSession.bindDN !== connection.ldap.bindDN) {
    mountedSession.session.identity = ANONYMOUS;
    mountedSession.bindDN = connection.ldap.bindDN;
  }
  return mountedSession;
}

/** Makes the connection anonymous at each bind request (RFC 4513 §4), even one that ldapjs answers or rejects. */
function resetAtBind(mountedSession: MountedSession, connection: MountedConnection): void {
  const resetSession = (): void => {
    mountedSession.session.beginBind();
    setBindDn(mountedSession, connection);
  };
  connection.parser.prependListener('message', (request) => request.type === 'BindRequest' && resetSession());
  connection.parser.prependListener('error', resetSession);
}

/** Answers a request. Resolves with whether the next handler is to be called. */
async function answer(
  services: Services,
  mountedSession: MountedSession,
  request: LdapjsRequest,
  response: LdapjsResponse,
): Promise<boolean> {
  let outcome: Outcome;
  try {
    outcome = await run(services, mountedSession, request, response);
  } catch (error) {
    outcome = failureOutcome(error, services);
  }
  sendOutcome(response, outcome);
  if (request.type !== 'BindRequest') return true;
  setBindDn(mountedSession, request.connection);
  return false;
}

/** Sets `bindDN` for other handlers. ldapjs would set it after `next()`, but its code for that fails. */
function setBindDn(mountedSession: MountedSession, connection: MountedConnection): void {
  const { identity } = mountedSession.session;
  connection.ldap.bindDN = ldapjs.parseDN(identity.kind === 'anonymous' ? 'cn=anonymous' : identity.dn);
  mountedSession.bindDN = connection.ldap.bindDN;
}

async function run(
  services: Services,
  { session, stopCallbacks }: MountedSession,
  message: LdapjsRequest,
  response: LdapjsResponse,
): Promise<Outcome> {
  refuseIncomplete(message);
  const bytes = message.toBer().buffer;
  const { id, request, controls } = decodeRequest(bytes, 0, bytes.length);
  services.statistics.operations[request.op]++;
  if (request.op === 'unbind' || request.op === 'abandon') throw new TypeError(`${request.op} has no answer`);
  await requireSession(services, session, request);
  const { connection } = message;
  const context: Context = {
    id,
    services,
    session,
    transport: makeTransport(connection),
    outstanding: NO_OUTSTANDING,
    controls: readControls(request.op, controls),
    client: undefined,
    searchReport: undefined,
    bindFailure: undefined,
    givenNumbers: undefined,
    get aborted() {
      return connection.destroyed;
    },
    onAbortWhileWaiting(stop) {
      stopCallbacks.add(stop);
      return () => stopCallbacks.delete(stop);
    },
  };
  return perform(context, request, new LdapjsReply(services, response, id, connection));
}

/**
 * Refuses a password modify request that ldapjs has decoded incompletely. ldapjs drops a value with an unknown tag and
 * empty fields, which would change the meaning of the request.
 */
function refuseIncomplete({ requestName, requestValue }: LdapjsRequest): void {
  if (requestName !== ExtendedOid.passwordModify) return;
  if (requestValue === undefined)
    throw new LdapError(
      'protocolError',
      'password modify: the request has no value; name the user or give a new password',
    );
  if (Object.values(requestValue as object).includes(''))
    throw new LdapError('protocolError', 'password modify: a field of the value is empty; leave it out');
}

async function requireSession(services: Services, session: Session, request: Request): Promise<void> {
  if (request.op === 'bind' || (await isBindValid(services, session))) return;
  session.identity = ANONYMOUS;
  throw new LdapError(
    'strongerAuthRequired',
    'the entry that was bound as was deleted or its password changed; bind again',
  );
}

function makeTransport(connection: MountedConnection): Transport {
  const isTls = isEncrypted(connection);
  return {
    isEncrypted: isTls,
    isConfidential: isTls || connection.remoteAddress === undefined,
    address: connection.remoteAddress,
    cipherStrength: cipherStrength(connection),
    network: clientNetwork(connection.remoteAddress),
    startTls: () => {
      throw new LdapError('protocolError', 'StartTLS is not supported');
    },
  };
}

const NO_OUTSTANDING: Outstanding = {
  hasOthers: () => false,
  cancel: () => {
    throw new LdapError('protocolError', 'cancel is not supported');
  },
};
