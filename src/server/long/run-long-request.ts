import { bufferOf } from '../../ldap/bytes.js';
import { LdapError, ResultCode } from '../../ldap/ldap-error.js';
import { chain, type Maybe } from '../../partition/index.js';
import { decodeRequest } from '../../protocol/decode.js';
import { encodeResponse } from '../../protocol/encode.js';
import type { RequestMessage } from '../../protocol/ldap-messages.js';
import { RESPONSE_CHUNK, Writer } from '../../protocol/writer.js';
import type { ReplyEntry } from '../entry/computed.js';
import type { WriterSource } from '../entry/encode-entry.js';
import type { Selection } from '../entry/selection.js';
import { formatRequestChange } from '../observation/change-text.js';
import { describeRequest } from '../observation/request-description.js';
import { perform } from '../operations/perform.js';
import type { LongReply, LongRequest, LongResult } from '../processes/long-request.js';
import type { Outstanding, Transport } from '../request/context.js';
import { failureOutcome, Operation, type OperationScope, type ResultSender } from '../request/operation.js';
import type { Services } from '../services/services.js';
import { decodeLimits } from '../settings/decode-limits.js';
import { readControls } from '../words/controls.js';
import { type Outcome, primaryReferral } from '../words/outcome.js';
import { Session } from '../words/session.js';

/** Runs a long request. `services` are those of the calling thread. Rejects as `LongWorker.run` does. */
export async function runLongRequest(services: Services, request: LongRequest, reply: LongReply): Promise<LongResult> {
  const scope = new LongRequestScope(services, request, reply);
  // The access rules may have changed since this thread last read them.
  await services.partition.freshAccessVersion();
  if (reply.aborted) throw new LdapError('canceled', 'canceled');
  const bytes = bufferOf(request.bytes);
  const message = decodeRequest(bytes, 0, bytes.length, decodeLimits(services.config));
  const operation = new Operation(scope, message.id, message.request.op);
  const primaryUrls = request.isForwarded ? undefined : request.primaryUrls;
  const run = () => performRequest(operation, message, reply, primaryUrls);
  const outcome = await (request.isForwarded ? services.acknowledgements.run(message.request, run) : run());
  await scope.flush();
  const { entryCount, referenceCount, sentBytes, searchReport, givenNumbers, proxiedDn } = operation;
  const actingDn = proxiedDn ?? scope.session.dn;
  const isChanged = outcome.code === ResultCode.success || outcome.isChanged;
  const isAudited = services.config.auditLog.output !== 'off' && isChanged;
  return {
    outcome,
    identity: scope.session.identity,
    entryCount,
    referenceCount,
    sentBytes,
    searchReport: searchReport && {
      plan: searchReport.plan,
      rowsExamined: searchReport.rowsExamined,
      advice: searchReport.advice(),
    },
    proxiedDn,
    changeText: isAudited ? formatRequestChange(message.request, services.schema, actingDn, givenNumbers) : undefined,
    description: request.isObserved
      ? describeRequest(message.request, message.controls, services.schema, actingDn)
      : undefined,
  };
}

async function performRequest(
  operation: Operation,
  message: RequestMessage,
  reply: LongReply,
  primaryUrls: readonly string[] | undefined,
): Promise<Outcome> {
  const { request, controls } = message;
  try {
    if (request.op === 'unbind' || request.op === 'abandon') throw new TypeError(`${request.op} has no answer`);
    operation.controls = readControls(request.op, controls);
    if (primaryUrls && operation.controls.dontUseCopy) throw primaryReferral(primaryUrls);
    reply.onAbort = () => operation.abort();
    if (reply.aborted) operation.abort();
    return await perform(operation, request, operation);
  } catch (error) {
    return failureOutcome(error, operation.services);
  }
}

/** The scope of an operation whose connection is in another thread. */
class LongRequestScope implements OperationScope, ResultSender, WriterSource {
  readonly services: Services;
  readonly session: Session;
  readonly transport: Transport;
  readonly outstanding = NO_OUTSTANDING;
  readonly client = undefined;
  readonly results = this;
  readonly writer = new Writer();
  readonly #reply: LongReply;

  constructor(services: Services, request: LongRequest, reply: LongReply) {
    this.services = services;
    this.session = new Session(request.connectionNumber);
    if (request.isBind) this.session.previousIdentity = request.identity;
    else this.session.identity = request.identity;
    const { isEncrypted, isConfidential, address, cipherStrength } = request;
    // The thread has a queue of its own for slow work, so the client's network does not matter.
    const tls = { isEncrypted, isConfidential, cipherStrength };
    this.transport = { ...tls, address, network: '', startTls: refuseStartTls };
    this.#reply = reply;
  }

  sendEntry(operation: Operation, entry: ReplyEntry, selection: Selection, typesOnly: boolean): Maybe<void> {
    return chain(this.services.encoder.encode(this, operation.id, entry, selection, typesOnly), (bytes) => {
      operation.entryCount++;
      operation.sentBytes += bytes;
      return this.#flushIfFull();
    });
  }

  sendReference(operation: Operation, urls: readonly string[]): Maybe<void> {
    operation.referenceCount++;
    return this.#send(operation, { op: 'searchReference', urls });
  }

  #send(operation: Operation, response: Parameters<typeof encodeResponse>[1]['response']): Maybe<void> {
    const earlierBytes = this.writer.length;
    encodeResponse(this.writer, { id: operation.id, response });
    operation.sentBytes += this.writer.length - earlierBytes;
    return this.#flushIfFull();
  }

  #flushIfFull(): Maybe<void> {
    return this.writer.length >= RESPONSE_CHUNK ? this.flush() : undefined;
  }

  flush(): Maybe<void> {
    return this.writer.length > 0 ? this.#reply.sendMessages(this.writer.take()) : undefined;
  }

  async writeChunked(chunks: AsyncIterable<Buffer>): Promise<number> {
    await this.flush();
    let bytes = 0;
    async function* countBytes(): AsyncGenerator<Buffer> {
      for await (const chunk of chunks) {
        bytes += chunk.length;
        yield chunk;
      }
    }
    await this.#reply.sendChunked(countBytes());
    return bytes;
  }
}

function refuseStartTls(): never {
  throw new TypeError('StartTLS cannot be a long request');
}

const NO_OUTSTANDING: Outstanding = {
  hasOthers: () => false,
  cancel: () => {
    throw new TypeError('cancel cannot be a long request');
  },
};

/** The output of a connection. */
interface ConnectionOutput extends WriterSource {
  waitForDrain(): Maybe<void>;
}

/** Writes the messages of a long request to the output of its connection. */
export class ConnectionReply implements LongReply {
  readonly #operation: Operation;
  readonly #output: ConnectionOutput;
  readonly #failEntry: (error: Error) => never;

  /** `failEntry` is called when an entry was not sent whole. */
  constructor(operation: Operation, output: ConnectionOutput, failEntry: (error: Error) => never) {
    this.#operation = operation;
    this.#output = output;
    this.#failEntry = failEntry;
  }

  get aborted(): boolean {
    return this.#operation.aborted;
  }

  set onAbort(abort: () => void) {
    this.#operation.onAbort = abort;
  }

  sendMessages(bytes: Buffer): Maybe<void> {
    if (!this.aborted) this.#output.writer.raw(bytes);
    return this.#output.waitForDrain();
  }

  async sendChunked(chunks: AsyncIterable<Buffer>): Promise<void> {
    // Checked only here: a message that has begun must be sent whole.
    if (this.aborted) throw new LdapError('canceled', 'canceled');
    await this.#output.writeChunked(chunks).catch(this.#failEntry);
  }
}
