import { randomBytes } from 'node:crypto';
import type { Client } from '../../fair/time-slice.js';
import { LdapError } from '../../ldap/ldap-error.js';
import { damageOf, type Maybe } from '../../partition/index.js';
import type { GivenNumbers } from '../../partition/model/directory-types.js';
import { SlowWorkAbandoned, SlowWorkFull } from '../../password/index.js';
import type { Request, RequestMessage } from '../../protocol/ldap-messages.js';
import type { ReplyEntry } from '../entry/computed.js';
import type { Selection } from '../entry/selection.js';
import type { SearchReport } from '../observation/observation.js';
import type { RequestDescription } from '../observation/request-description.js';
import type { Services } from '../services/services.js';
import { NO_CONTROLS, type RequestControls } from '../words/controls.js';
import { errorOutcome, type Outcome, outcome } from '../words/outcome.js';
import type { Session } from '../words/session.js';
import type { Context, Outstanding, SearchReply, Transport } from './context.js';

/** Sends the results of searches to a client, and counts them in the operation. */
export interface ResultSender {
  sendEntry(operation: Operation, entry: ReplyEntry, selection: Selection, typesOnly: boolean): Maybe<void>;
  sendReference(operation: Operation, urls: readonly string[]): Maybe<void>;
  /** Absent in a thread that a search which waits for changes must not occupy. */
  sendIntermediate?(operation: Operation, oid: string, value: Buffer): Maybe<void>;
}

/** The parts of the context that all operations of a connection share. */
export interface OperationScope extends Pick<Context, 'services' | 'session' | 'transport' | 'outstanding' | 'client'> {
  readonly results: ResultSender;
}

/** Memory of a request in bytes: of its message, and an upper bound of what it takes besides when it is decoded. */
export interface RequestMemory {
  readonly bytes: number;
  readonly overheadBytes: number;
}

/** One operation of a connection, from its request to its response. */
export class Operation implements Context, SearchReply {
  readonly id: number;
  readonly op: Request['op'];
  /** Set before the operation begins. */
  controls: RequestControls = NO_CONTROLS;
  /** `performance.now()` at the start of the operation. */
  readonly startedAt = performance.now();
  /** Time from the arrival of the request to the start, in milliseconds. */
  readonly waitMs: number;
  /** Number of entries sent. */
  entryCount = 0;
  referenceCount = 0;
  /** Length of the sent responses. */
  sentBytes = 0;
  searchReport: SearchReport | undefined = undefined;
  bindFailure: string | undefined = undefined;
  /** DN of the user for whom a replica has forwarded the request. */
  behalfOf: string | undefined = undefined;
  proxiedDn: string | undefined = undefined;
  givenNumbers: GivenNumbers | undefined = undefined;
  isFollowing = false;
  /** Frees the place of the operation on its connection; undefined: it holds none. */
  onFollowing: (() => void) | undefined;
  /** Number of the request on its connection, from 1. */
  number = 0;
  /** Set by another thread that has run the request. */
  description: RequestDescription | undefined = undefined;
  /** Set when this thread has decoded a long request. */
  message: RequestMessage | undefined = undefined;
  /** As `description`: the change of the request. */
  changeText: string | undefined = undefined;
  readonly services: Services;
  session: Session;
  readonly transport: Transport;
  readonly outstanding: Outstanding;
  readonly client: Client | undefined;
  readonly #results: ResultSender;
  /** What `Intake` counts for the request until the response. */
  requestMemory: RequestMemory | undefined = undefined;
  aborted = false;
  onAbort: (() => void) | undefined;
  /** Called when the operation is aborted while it waits and has changed nothing. */
  #stopWaiting: (() => void) | undefined;
  /** Whether no response is sent: the operation was abandoned or its connection closed. */
  isSilent = false;
  /** Called with the result code when the operation has ended. */
  onOperationEnd: ((code: number) => void) | undefined;

  /** `arrivedAt`: `performance.now()` when the request had arrived; 0: the request has not waited. */
  constructor(scope: OperationScope, id: number, op: Request['op'], arrivedAt = 0) {
    this.id = id;
    this.op = op;
    this.waitMs = arrivedAt === 0 ? 0 : this.startedAt - arrivedAt;
    this.services = scope.services;
    this.session = scope.session;
    this.transport = scope.transport;
    this.outstanding = scope.outstanding;
    this.client = scope.client;
    this.#results = scope.results;
  }

  /** Asks the operation to end as soon as it can. */
  abort(): void {
    this.aborted = true;
    this.onAbort?.();
    this.#stopWaiting?.();
  }

  /** Whether the operation waits and has changed nothing: it may be abandoned. */
  get isWaiting(): boolean {
    return this.#stopWaiting !== undefined;
  }

  onAbortWhileWaiting(stop: () => void): () => void {
    this.#stopWaiting = stop;
    return () => {
      this.#stopWaiting = undefined;
    };
  }

  entry(entry: ReplyEntry, selection: Selection, typesOnly: boolean): Maybe<void> {
    if (this.aborted) throw new LdapError('canceled', 'canceled');
    return this.#results.sendEntry(this, entry, selection, typesOnly);
  }

  get intermediate(): SearchReply['intermediate'] {
    if (!this.#results.sendIntermediate) return undefined;
    return (oid, value) => {
      if (this.aborted) throw new LdapError('canceled', 'canceled');
      return this.#results.sendIntermediate!(this, oid, value);
    };
  }

  reference(urls: readonly string[]): Maybe<void> {
    if (this.aborted) throw new LdapError('canceled', 'canceled');
    return this.#results.sendReference(this, urls);
  }
}

type FailureServices = Pick<Services, 'log' | 'partition' | 'config'>;

/**
 * Returns the outcome of an operation that threw `error`. An `LdapError` is sent to the client as it is. Any other
 * error is a fault of the server: the error is logged with its stack and an incident id, and the client gets only the
 * id. Damaged stored data is treated likewise, and makes the directory read-only with the setting
 * `readOnlyWhenDamaged`.
 */
export function failureOutcome(error: unknown, { log, partition, config }: FailureServices): Outcome {
  const damage = damageOf(error);
  if (error instanceof LdapError && !damage) return errorOutcome(error);
  if (error instanceof SlowWorkFull) return outcome('busy', `${error.message}; try again`);
  if (error instanceof SlowWorkAbandoned) return outcome('canceled', error.message);
  const incident = randomBytes(6).toString('hex');
  if (damage) {
    const { table, key, message } = damage;
    log.error({ incident, table, key }, `stored data is damaged: ${message}`);
    if (config.readOnlyWhenDamaged) partition.store.holdWrites?.(message);
    return outcome('other', `stored data is damaged; incident ${incident} in the server's log`);
  }
  log.error({ incident, err: error }, 'unexpected error');
  return outcome('other', `internal error; incident ${incident} in the server's log`);
}
