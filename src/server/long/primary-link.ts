import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { LdapError, ResultCode, type ResultName, resultName } from '../../ldap/ldap-error.js';
import type { Partition } from '../../partition/index.js';
import type { Request } from '../../protocol/ldap-messages.js';
import { ExtendedOid } from '../../protocol/oids.js';
import { candidates, connectTo } from '../../replica/asking.js';
import { lastEntry } from '../../replica/history.js';
import { type LdapClient, RefusedError } from '../../replica/ldap-client.js';
import { type ReplicaState, roleOf, stateReader } from '../../replica/state-file.js';
import { encodePlain } from '../../replica/wire.js';
import type { LongRequest, LongResult, PrimaryLink, ReplicaServices } from '../processes/long-request.js';
import { ReplicaStates } from '../processes/replica-states.js';
import type { Config } from '../settings/index.js';
import { primaryReferral } from '../words/outcome.js';
import { decodeForwardedResult, encodeForwarded } from './forwarded.js';

/** Longest time that an answer waits until the replica has applied the change, in ms. */
const APPLY_MS = 5000;
/** Time between two looks whether it has, and between two tries to reach the primary, in ms. */
const LOOK_MS = 2;
const RETRY_MS = 1000;

export interface LinkOptions {
  readonly state: ReplicaState;
  readonly config: Config;
  readonly log: Logger;
  readonly states: ReplicaStates;
  /** Reads the number of the last entry of the log that this replica has applied. */
  readonly readPosition: () => Promise<bigint>;
}

/** The connection of a replica on which requests go to the primary. */
export class ReplicaLink implements PrimaryLink {
  readonly #options: LinkOptions;
  #client: LdapClient | undefined;
  #lostAt = Date.now();
  #connecting: Promise<LdapClient> | undefined;
  readonly #closing = new AbortController();

  constructor(options: LinkOptions) {
    this.#options = options;
    void this.#keepConnected();
  }

  get urls(): readonly string[] {
    return this.#options.state.of;
  }

  get isReached(): boolean {
    return this.#client !== undefined && !this.#client.isClosed;
  }

  close(): void {
    this.#closing.abort();
    this.#client?.close();
  }

  /** Whether the link goes where a replica with this state goes. */
  follows({ role, of, name, passwordFile }: ReplicaState): boolean {
    const { state } = this.#options;
    return (
      role === state.role &&
      [of.join(' '), name, passwordFile].join() === [state.of.join(' '), state.name, state.passwordFile].join()
    );
  }

  async run(request: LongRequest): Promise<LongResult> {
    const { state, config } = this.#options;
    if (config.replica.writes === 'refer' && !request.isBind) throw primaryReferral(state.of);
    const client = await this.#connected();
    const { result, position } = await this.#send(client, encodeForwarded(request));
    await this.#waitUntilApplied(position);
    return result;
  }

  async #send(client: LdapClient, value: Buffer): Promise<ReturnType<typeof decodeForwardedResult>> {
    const request: Request = { op: 'extended', oid: ExtendedOid.forward, value };
    try {
      const { response } = await client.require(request);
      return decodeForwardedResult((response as Extract<typeof response, { op: 'extendedResponse' }>).value!);
    } catch (error) {
      // A replica that may follow no longer is refused with 50, which is no fault of the client.
      const codes: readonly number[] = [ResultCode.unavailable, ResultCode.insufficientAccessRights];
      if (error instanceof RefusedError && !codes.includes(error.code))
        throw new LdapError(resultName(error.code) as ResultName, error.message);
      client.close();
      const text = error instanceof RefusedError ? error.message : 'it was lost at work: the change may have been made';
      throw new LdapError('unavailable', `the primary: ${text}`, { cause: error });
    }
  }

  async #waitUntilApplied(position: bigint): Promise<void> {
    const until = performance.now() + APPLY_MS;
    while ((await this.#options.readPosition()) < position && performance.now() < until) await delay(LOOK_MS);
  }

  async #connected(): Promise<LdapClient> {
    if (this.#client && !this.#client.isClosed) return this.#client;
    try {
      return await this.#connect();
    } catch (error) {
      const since = new Date(this.#lostAt).toISOString();
      const { message } = error as Error;
      throw new LdapError('unavailable', `the primary is not reached since ${since}: ${message}`, { cause: error });
    }
  }

  #connect(): Promise<LdapClient> {
    this.#connecting ??= this.#open().finally(() => {
      this.#connecting = undefined;
    });
    return this.#connecting;
  }

  async #open(): Promise<LdapClient> {
    const { state } = this.#options;
    const [best] = await candidates(state.of, state, []);
    // None answers as it should: this says why.
    const client = await connectTo(best?.url ?? state.of[0]!, state);
    try {
      await this.#options.states.handOn((states) => handOn(client, encodePlain(states)));
      this.#closing.signal.throwIfAborted();
    } catch (error) {
      client.close();
      throw error;
    }
    client.onClose = () => {
      this.#lostAt = Date.now();
    };
    this.#client = client;
    return client;
  }

  async handOn(states: Buffer): Promise<void> {
    await handOn(await this.#connected(), states);
  }

  /** Connects again after a loss, so that what was recorded meanwhile is handed on, and binds know where to go. */
  async #keepConnected(): Promise<void> {
    const { signal } = this.#closing;
    let problem = '';
    while (!signal.aborted) {
      if (!this.isReached) {
        try {
          await this.#connect();
          problem = '';
        } catch (error) {
          const { message } = error as Error;
          if (message !== problem) this.#options.log.warn({ problem: message }, 'writes cannot go to the primary');
          problem = message;
        }
      }
      await delay(RETRY_MS, undefined, { signal }).catch(() => undefined);
    }
  }
}

async function handOn(client: LdapClient, value: Buffer): Promise<void> {
  await client.require({ op: 'extended', oid: ExtendedOid.handOn, value });
}

/** The role of a server whose data folder may be a replica, and may become one or cease to be one while it serves. */
export class ReplicaRole implements ReplicaServices {
  readonly #partition: Partition;
  readonly #config: Config;
  readonly #log: Logger;
  readonly #readState: () => ReplicaState | undefined;
  #state: ReplicaState | undefined;
  #link: ReplicaLink | undefined;
  readonly states: ReplicaStates;

  constructor(partition: Partition, config: Config, log: Logger) {
    this.#partition = partition;
    this.states = new ReplicaStates(partition, () => this.link);
    this.#config = config;
    this.#log = log;
    this.#readState = config.data === undefined ? () => undefined : stateReader(config.data);
  }

  get link(): ReplicaLink | undefined {
    const state = this.#readState();
    if (state !== this.#state) this.#adopt(state);
    return this.#link;
  }

  #adopt(state: ReplicaState | undefined): void {
    this.#state = state;
    const isSame = this.#link && state && this.#link.follows(state);
    if (isSame) return;
    this.close();
    if (!state || roleOf(state) !== 'replica') return;
    const readPosition = (): Promise<bigint> => {
      this.#partition.renewReads();
      return lastEntry(this.#partition.store);
    };
    const options = { state, config: this.#config, log: this.#log, states: this.states, readPosition };
    this.#link = new ReplicaLink(options);
  }

  close(): void {
    this.#link?.close();
    this.#link = undefined;
  }
}
