import { bufferOf } from '../../ldap/bytes.js';
import { decodeRequest } from '../../protocol/decode.js';
import { encodeResponse } from '../../protocol/encode.js';
import type { RequestMessage } from '../../protocol/ldap-messages.js';
import { PIECE, Writer } from '../../protocol/writer.js';
import { failureOutcome } from '../connection/failure.js';
import { Operation, type OperationScope, type ResultSender } from '../connection/operation.js';
import type { WriterSource } from '../entry/encode-entry.js';
import type { ReplyEntry } from '../entry/reply-entry.js';
import type { Selection } from '../entry/selection.js';
import { perform } from '../operations/perform.js';
import type { Errand, ErrandEnd, ErrandReply } from '../processes/long-worker.js';
import type { Outstanding, Transport } from '../request/context.js';
import type { Services } from '../services/services.js';
import { decodeLimits } from '../settings/decode-limits.js';
import { readControls } from '../words/controls.js';
import { chain, type Maybe } from '../words/maybe.js';
import type { Outcome } from '../words/outcome.js';
import { Session } from '../words/session.js';

/** Does an errand; `services` are those of the thread that does it. Errors: `LongWorker.run`. */
export async function runErrand(services: Services, errand: Errand, reply: ErrandReply): Promise<ErrandEnd> {
  const bytes = bufferOf(errand.bytes);
  const message = decodeRequest(bytes, 0, bytes.length, decodeLimits(services.config));
  const owner = new ErrandOwner(services, errand, reply);
  // By what is in force now, whenever this thread last looked.
  await services.partition.freshAccess();
  const outcome = await outcomeOf(owner, message, reply);
  await owner.flush();
  return { outcome, identity: owner.session.identity, entries: owner.entries };
}

async function outcomeOf(owner: ErrandOwner, message: RequestMessage, reply: ErrandReply): Promise<Outcome> {
  const { id, request, controls } = message;
  try {
    if (request.op === 'unbind' || request.op === 'abandon') throw new TypeError(`${request.op} has no answer`);
    const operation = new Operation(owner, id, request.op, readControls(request.op, controls));
    reply.onAbort = () => operation.abort();
    if (reply.aborted) operation.abort();
    return await perform(operation, request, operation);
  } catch (error) {
    return failureOutcome(error, owner.services);
  }
}

/** Stands for the connection that the request came through. */
class ErrandOwner implements OperationScope, ResultSender, WriterSource {
  readonly services: Services;
  readonly session: Session;
  readonly transport: Transport;
  readonly outstanding = NO_OUTSTANDING;
  readonly client = undefined;
  readonly results = this;
  readonly writer = new Writer();
  entries = 0;
  readonly #reply: ErrandReply;

  constructor(services: Services, errand: Errand, reply: ErrandReply) {
    this.services = services;
    this.session = new Session(errand.connection);
    this.session.identity = errand.identity;
    const { encrypted, confidential, address, strength } = errand;
    // The thread has a queue of its own for slow work, so the client's network does not matter.
    this.transport = { encrypted, confidential, address, strength, network: '', startTls: refuseStartTls };
    this.#reply = reply;
  }

  sendEntry(messageId: number, entry: ReplyEntry, selection: Selection, typesOnly: boolean): Maybe<void> {
    this.entries++;
    return chain(this.services.encoder.encode(this, messageId, entry, selection, typesOnly), () => this.#room());
  }

  sendReference(messageId: number, urls: readonly string[]): Maybe<void> {
    encodeResponse(this.writer, { id: messageId, response: { op: 'searchReference', urls } });
    return this.#room();
  }

  #room(): Maybe<void> {
    return this.writer.length >= PIECE ? this.flush() : undefined;
  }

  flush(): Maybe<void> {
    return this.writer.length > 0 ? this.#reply.messages(this.writer.take()) : undefined;
  }

  async writeLong(pieces: AsyncIterable<Buffer>): Promise<void> {
    await this.flush();
    await this.#reply.message(pieces);
  }
}

function refuseStartTls(): never {
  throw new TypeError('StartTLS is no errand');
}

const NO_OUTSTANDING: Outstanding = {
  size: 0,
  cancel: () => {
    throw new TypeError('cancel is no errand');
  },
};
