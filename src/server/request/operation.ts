import type { Client } from '../../fair/time-slice.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Request } from '../../protocol/ldap-messages.js';
import type { ReplyEntry } from '../entry/reply-entry.js';
import type { Selection } from '../entry/selection.js';
import type { Services } from '../services/services.js';
import type { RequestControls } from '../words/controls.js';
import type { Maybe } from '../words/maybe.js';
import type { Session } from '../words/session.js';
import type { Context, Outstanding, SearchReply, Transport } from './context.js';

/** Sends the results of searches to a client, by message ID. */
export interface ResultSender {
  sendEntry(messageId: number, entry: ReplyEntry, selection: Selection, typesOnly: boolean): Maybe<void>;
  sendReference(messageId: number, urls: readonly string[]): Maybe<void>;
}

/** The parts of the context that all operations of a connection share. */
export interface OperationScope extends Pick<Context, 'services' | 'session' | 'transport' | 'outstanding' | 'client'> {
  readonly results: ResultSender;
}

/** One operation of a connection, from its request to its response. */
export class Operation implements Context, SearchReply {
  readonly id: number;
  readonly op: Request['op'];
  readonly controls: RequestControls;
  readonly services: Services;
  readonly session: Session;
  readonly transport: Transport;
  readonly outstanding: Outstanding;
  readonly client: Client | undefined;
  readonly #results: ResultSender;
  /** Size of the request, which `Intake` counts until the response. */
  requestBytes = 0;
  aborted = false;
  onAbort: (() => void) | undefined;
  /** Called when the operation is aborted while it waits and has changed nothing. */
  #stopWaiting: (() => void) | undefined;
  /** Whether no response is sent: the operation was abandoned or its connection closed. */
  isSilent = false;
  /** Called with the result code when the operation has ended. */
  onOperationEnd: ((code: number) => void) | undefined;

  constructor(scope: OperationScope, id: number, op: Request['op'], controls: RequestControls) {
    this.id = id;
    this.op = op;
    this.controls = controls;
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
    return this.#results.sendEntry(this.id, entry, selection, typesOnly);
  }

  reference(urls: readonly string[]): Maybe<void> {
    if (this.aborted) throw new LdapError('canceled', 'canceled');
    return this.#results.sendReference(this.id, urls);
  }
}
