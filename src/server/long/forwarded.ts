import { bufferOf } from '../../ldap/bytes.js';
import { LdapError } from '../../ldap/ldap-error.js';
import { decodePlain, encodePlain, packStrings, unpackStrings } from '../../replica/wire.js';
import type { LongReply, LongRequest, LongResult } from '../processes/long-request.js';
import { requireReplica } from '../request/access.js';
import type { Operation } from '../request/operation.js';
import { isBindValid } from '../request/validity.js';
import type { Services } from '../services/services.js';
import { type Outcome, SUCCESS } from '../words/outcome.js';
import { ANONYMOUS, type Identity, Session } from '../words/session.js';
import { runLongRequest } from './run-long-request.js';

/** What the primary answers to a forwarded request. */
export interface ForwardedResult {
  readonly result: LongResult;
  /** The replica has the change when it has applied this entry of the log. */
  readonly position: bigint;
}

/** Encodes a request that a replica forwards to its primary. */
export function encodeForwarded({ bytes, ...request }: LongRequest): Buffer {
  return packStrings([encodePlain({ ...request, identity: elsewhere(request.identity) }), bufferOf(bytes)]);
}

/** Throws `SyntaxError` or `RangeError` for a malformed answer. */
export function decodeForwardedResult(value: Buffer): ForwardedResult {
  const { result, position } = decodePlain(value) as ForwardedResult;
  return { position, result: { ...result, identity: elsewhere(result.identity) } };
}

/** An identity of another server: its DN is read again. */
function elsewhere(identity: Identity): Identity {
  return identity.kind === 'user' ? { ...identity, generation: -1 } : identity;
}

/** The requests of a replica that are forwarded have one answer. */
class NoReply implements LongReply {
  readonly aborted = false;
  onAbort: (() => void) | undefined;

  sendMessages(): never {
    throw new TypeError('a forwarded request has one answer');
  }

  sendChunked(): never {
    throw new TypeError('a forwarded request has one answer');
  }
}

/** A request is handed on so often: replicas that follow each other would hand it on without end. */
const MAX_HOPS = 4;

/** Runs a request that a replica has forwarded, with the rights and on behalf of the client that sent it there. */
export async function runForwarded(operation: Operation, value: Buffer | undefined): Promise<Outcome> {
  const { services } = operation;
  await requireReplica(operation);
  const request = decodeRequest(value);
  const { hops = 0 } = request;
  if (hops > MAX_HOPS) throw new LdapError('unavailable', 'replicas follow each other, and none reaches the primary');
  const link = services.primaryLink;
  const result = await (link ? link.run({ ...request, hops: hops + 1 }) : runAsPrimary(operation, request));
  const position = await services.primary.position();
  return { ...SUCCESS, value: encodePlain({ result, position } satisfies ForwardedResult) };
}

async function runAsPrimary(operation: Operation, request: LongRequest): Promise<LongResult> {
  const { services } = operation;
  const present = await presentIdentity(services, request.identity);
  if (!present && !request.isBind)
    throw new LdapError('strongerAuthRequired', 'the bind is not valid any more; bind again');
  const identity = present ?? ANONYMOUS;
  const result = await runLongRequest(services, { ...request, identity, isForwarded: true }, new NoReply());
  operation.behalfOf = identity.kind === 'anonymous' ? '' : identity.dn;
  operation.proxiedDn = result.proxiedDn;
  operation.description = result.description;
  operation.changeText = result.changeText;
  return result;
}

function decodeRequest(value: Buffer | undefined): LongRequest {
  try {
    const [head, message] = unpackStrings(value ?? Buffer.alloc(0));
    const request = decodePlain(head!) as Omit<LongRequest, 'bytes'>;
    if (!['anonymous', 'user', 'admin'].includes(request.identity.kind)) throw new TypeError('no identity');
    return { ...request, bytes: new Uint8Array(message!) };
  } catch {
    throw new LdapError(
      'protocolError',
      'a forwarded request is malformed; both servers need the same version of Rowan',
    );
  }
}

/** Returns the identity with its present DN and passwords; undefined if its bind is not valid any more. */
async function presentIdentity(services: Services, identity: Identity): Promise<Identity | undefined> {
  const session = new Session(0);
  session.identity = identity;
  return (await isBindValid(services, session)) ? session.identity : undefined;
}
