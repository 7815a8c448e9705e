import { KeyedLock } from '../../fair/keyed-lock.js';
import { TimeSlice } from '../../fair/time-slice.js';
import { LdapError, ResultCode } from '../../ldap/ldap-error.js';
import { LongWork, type Maybe, type Partition } from '../../partition/index.js';
import { decodeRequest } from '../../protocol/decode.js';
import { encodeRequest } from '../../protocol/encode.js';
import { decodeTransactionEnd, encodeTransactionEnd } from '../../protocol/extended/transactions.js';
import type { ExtendedRequest, Request, RequestMessage } from '../../protocol/ldap-messages.js';
import { formatRequestChange } from '../observation/change-text.js';
import { describeRequest } from '../observation/request-description.js';
import { isPasswordAttribute } from '../passwords/password-hashing.js';
import { requireBound } from '../request/access.js';
import type { Context, SearchReply } from '../request/context.js';
import { failureOutcome, Operation } from '../request/operation.js';
import { isBindValid, outdatedBind } from '../request/validity.js';
import type { Services } from '../services/services.js';
import { decodeLimits } from '../settings/decode-limits.js';
import { readControls } from '../words/controls.js';
import { type Outcome, outcome, SUCCESS } from '../words/outcome.js';
import { Session } from '../words/session.js';

type MemberRequest = Exclude<Request, { op: 'unbind' | 'abandon' | 'bind' }>;
/** Runs an operation, as `perform.ts` does. */
type Perform = (context: Context, request: MemberRequest, reply: SearchReply) => Maybe<Outcome>;

/** The transactions of one user are carried out one after the other. */
const turns = new KeyedLock();

/** Start (RFC 5805 §2.1): returns the identifier of a new transaction. */
export function startTransaction({ services, session, controls }: Context, request: ExtendedRequest): Outcome {
  if (request.value !== undefined) throw new LdapError('protocolError', 'start transaction: the request has no value');
  requireBound(session, 'begin transactions');
  if (controls.proxiedAuthorization !== undefined)
    throw new LdapError(
      'unwillingToPerform',
      'a transaction belongs to the client; its operations may have the control',
    );
  if (services.primaryLink)
    throw new LdapError('unwillingToPerform', 'this server is a replica; begin the transaction at its primary');
  return { ...SUCCESS, value: Buffer.from(session.transactions.begin(services.config.limits)) };
}

/**
 * Keeps an operation for the end of its transaction (RFC 5805 §2.2). A refusal aborts the transaction: a client that
 * does not look at its answers must not commit the rest.
 */
export function enqueue({ services, session, controls }: Context, message: RequestMessage): Outcome {
  const { request } = message;
  const identifier = controls.transaction!;
  try {
    if (request.op === 'modify' && request.changes.some((c) => isPasswordAttribute(services.schema, c.attribute.type)))
      throw new LdapError('unwillingToPerform', 'passwords are not changed in a transaction; change them alone');
    // Its entries are deleted one after the other, some of them after its answer.
    if (controls.treeDelete) throw new LdapError('unwillingToPerform', 'a tree is not deleted in a transaction');
    session.transactions.add(identifier, Buffer.from(encodeRequest(message)), services.config.limits, session.key);
    return SUCCESS;
  } catch (error) {
    session.transactions.abort(identifier, (error as Error).message);
    throw error;
  }
}

/** Ends a transaction because one of its operations has failed. */
class MemberFailed extends Error {
  readonly failed: RequestMessage;
  readonly outcome: Outcome;

  constructor(failed: RequestMessage, outcome: Outcome) {
    super(outcome.message);
    this.failed = failed;
    this.outcome = outcome;
  }
}

/** End (RFC 5805 §2.3): carries out all operations of a transaction, or none of them. */
export async function endTransaction(context: Context, request: ExtendedRequest, perform: Perform): Promise<Outcome> {
  const { commit, identifier } = decodeTransactionEnd(request.value);
  const { services, session } = context;
  const members = session.transactions.take(identifier);
  if (!commit) return SUCCESS;
  const { key } = session;
  await turns.acquire(key);
  try {
    const done = await services.partition.transaction((trial) => runMembers(context, trial, members, perform));
    context.changeText = done.map(({ changeText }) => changeText).join('');
    return { ...SUCCESS, value: encodeTransactionEnd(undefined, done) };
  } catch (error) {
    if (!(error instanceof MemberFailed)) throw error;
    const { id, request, controls } = error.failed;
    context.description = describeRequest(request, controls, services.schema, session.dn);
    return { ...error.outcome, controls: undefined, value: encodeTransactionEnd(id, [{ id, ...error.outcome }]) };
  } finally {
    turns.release(key);
  }
}

async function runMembers(context: Context, trial: Partition, members: readonly Buffer[], perform: Perform) {
  const services = Object.create(context.services, { partition: { value: trial } }) as Services;
  // What an operation changes of the identity counts for the operations after it, and for nothing else.
  const session = new Session(context.session.connectionNumber);
  session.identity = context.session.identity;
  const scope = { ...context, services, session, results: NO_RESULTS };
  const slice = new TimeSlice(context.client);
  const done = [];
  for (const member of members) {
    await slice.yieldIfOver();
    if (context.aborted) throw new LdapError('canceled', 'the client has gone');
    const message = decodeRequest(member, 0, member.length, decodeLimits(services.config));
    const operation = new Operation(scope, message.id, message.request.op);
    const result = await runMember(operation, message, perform);
    if (result.code !== ResultCode.success) throw new MemberFailed(message, result);
    const actingDn = operation.proxiedDn ?? session.dn;
    const changeText = formatRequestChange(message.request, services.schema, actingDn, operation.givenNumbers);
    done.push({ id: message.id, controls: result.controls, changeText });
  }
  return done;
}

async function runMember(operation: Operation, { request, controls }: RequestMessage, perform: Perform) {
  const { services, session } = operation;
  try {
    operation.controls = { ...readControls(request.op, controls), transaction: undefined };
    if (!(await isBindValid(services, session))) throw outdatedBind();
    return await perform(operation, request as MemberRequest, operation);
  } catch (error) {
    if (!(error instanceof LongWork)) return failureOutcome(error, services);
    return outcome('unwillingToPerform', 'the entry is too long to be changed in a transaction; change it alone');
  }
}

/** Operations that change entries have no results besides their responses. */
const NO_RESULTS = { sendEntry: () => undefined, sendReference: () => undefined };
