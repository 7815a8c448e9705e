import { LdapError } from '../../ldap/ldap-error.js';
import type { Asker } from '../../partition/read/search-params.js';
import type { Request } from '../../protocol/ldap-messages.js';
import type { ReplyEntry } from '../entry/reply-entry.js';
import type { Selection } from '../entry/selection.js';
import type { Context, SearchReply, Transport } from '../request/context.js';
import type { Services } from '../services/services.js';
import type { RequestControls } from '../words/controls.js';
import type { Maybe } from '../words/maybe.js';
import type { Session } from '../words/session.js';

/** What an operation needs of its connection. */
export interface OperationOwner extends Transport {
  readonly services: Services;
  readonly session: Session;
  readonly asker: Asker | undefined;
  sendEntry(messageId: number, entry: ReplyEntry, selection: Selection, typesOnly: boolean): Maybe<void>;
  sendReference(messageId: number, urls: readonly string[]): Maybe<void>;
}

/** An operation of a connection from its request to its response. */
export class Operation implements Context, SearchReply {
  readonly owner: OperationOwner;
  readonly id: number;
  readonly op: Request['op'];
  readonly controls: RequestControls;
  /** Of its request, as `Intake` holds them. */
  bytes = 0;
  aborted = false;
  /** Called when it is aborted. */
  onAbort: (() => void) | undefined;
  /** Called when it is aborted while it waits for something and has done nothing. */
  #leave: (() => void) | undefined;
  /** Abandoned: no response follows. */
  silent = false;
  /** Called when it has ended, with its result code. */
  onEnd: ((code: number) => void) | undefined;

  constructor(owner: OperationOwner, id: number, op: Request['op'], controls: RequestControls) {
    this.owner = owner;
    this.id = id;
    this.op = op;
    this.controls = controls;
  }

  /** It is to end as soon as it can. */
  abort(): void {
    this.aborted = true;
    this.onAbort?.();
    this.#leave?.();
  }

  /** It waits for something and has done nothing. */
  get mayLeave(): boolean {
    return this.#leave !== undefined;
  }

  onceGone(leave: () => void): () => void {
    this.#leave = leave;
    return () => {
      this.#leave = undefined;
    };
  }

  get services(): Services {
    return this.owner.services;
  }

  get session(): Session {
    return this.owner.session;
  }

  get asker(): Asker | undefined {
    return this.owner.asker;
  }

  get transport(): Transport {
    return this.owner;
  }

  entry(entry: ReplyEntry, selection: Selection, typesOnly: boolean): Maybe<void> {
    if (this.aborted) throw new LdapError('canceled', 'canceled');
    return this.owner.sendEntry(this.id, entry, selection, typesOnly);
  }

  reference(urls: readonly string[]): Maybe<void> {
    if (this.aborted) throw new LdapError('canceled', 'canceled');
    return this.owner.sendReference(this.id, urls);
  }
}
