import { BoundedMap } from '../../cache/bounded-map.js';
import { chain, type Maybe, type Partition } from '../../partition/index.js';
import { type AccountState, NO_STATE } from '../../partition/model/account-state.js';
import { storeFailureOf } from '../../partition/model/store-errors.js';

/** Reads and changes what binds record of accounts. */
export type StateDirectory = Pick<Partition, 'accountState' | 'changeAccountState' | 'changeDecoyState'>;

/** Most accounts whose state is kept while it cannot be recorded. */
const MAX_ACCOUNTS = 100_000;

/** A bind on a replica that would record something: the primary is asked instead. */
export class PrimaryNeeded extends Error {}

/** Errors of a store that takes no writes for some time, and is read all the same. */
const NO_WRITES: ReadonlySet<string | undefined> = new Set(['notPrimary', 'held', 'permission', 'full']);

/**
 * The states of accounts. On a replica whose primary is reached, whoever would change one throws `PrimaryNeeded`, so
 * that failures at several replicas are one count. While the primary is away, or the store takes no writes, changes are
 * kept here, and handed on later: guesses are counted, and the answers to them are the usual ones.
 */
export class ReplicaStates implements StateDirectory {
  readonly #partition: StateDirectory;
  /** Returns undefined when this server is no replica. */
  readonly #primary: () => { readonly isReached: boolean } | undefined;
  readonly #own = new BoundedMap<string, AccountState>(MAX_ACCOUNTS, 'oldest');

  constructor(partition: StateDirectory, primary: () => { readonly isReached: boolean } | undefined) {
    this.#partition = partition;
    this.#primary = primary;
  }

  accountState(id: Buffer): Maybe<AccountState | undefined> {
    const own = this.#own.size > 0 ? this.#own.get(id.toString('hex')) : undefined;
    return own ?? this.#partition.accountState(id);
  }

  async changeAccountState(...[id, edit]: Parameters<StateDirectory['changeAccountState']>): Promise<void> {
    if (await this.#isWritten(() => this.#partition.changeAccountState(id, edit))) return;
    await chain(this.accountState(id), (state) => {
      const newState = edit(state);
      if (newState) this.#own.set(id.toString('hex'), newState);
    });
  }

  async changeDecoyState(): Promise<void> {
    await this.#isWritten(() => this.#partition.changeDecoyState());
  }

  /** Writes to the store, with what was kept before. Resolves with false if the store takes no writes now. */
  async #isWritten(write: () => Promise<void>): Promise<boolean> {
    const primary = this.#primary();
    if (primary?.isReached) throw new PrimaryNeeded('the primary records this bind');
    if (primary) return false;
    try {
      await this.handOn((states) => mergeAll(this.#partition, states));
      await write();
      return true;
    } catch (error) {
      if (NO_WRITES.has(storeFailureOf(error)?.code)) return false;
      throw error;
    }
  }

  /** Hands the states on to `send`, and forgets those that it has taken. */
  async handOn(send: (states: readonly (readonly [string, AccountState])[]) => Promise<void>): Promise<void> {
    const states = [...this.#own.entries()];
    if (states.length === 0) return;
    await send(states);
    for (const [id, state] of states) if (this.#own.get(id) === state) this.#own.delete(id);
  }
}

/** Records states that were counted elsewhere. */
export async function mergeAll(
  partition: Pick<StateDirectory, 'changeAccountState'>,
  states: readonly (readonly [string, AccountState])[],
): Promise<void> {
  for (const [id, state] of states)
    await partition.changeAccountState(Buffer.from(id, 'hex'), (stored) => mergeStates(stored, state));
}

/** Returns the state of an account that was counted at two servers. */
function mergeStates(a: AccountState = NO_STATE, b: AccountState): AccountState {
  const latest = new Map([...a.uses, ...b.uses].sort((x, y) => x.time - y.time).map((use) => [use.id, use]));
  return {
    failures: union(a.failures, b.failures),
    lockedUntil: Math.max(a.lockedUntil, b.lockedUntil),
    lockedAt: Math.max(a.lockedAt, b.lockedAt),
    graceUses: union(a.graceUses, b.graceUses),
    lastSuccess: Math.max(a.lastSuccess, b.lastSuccess),
    since: a.since === 0 ? b.since : a.since,
    uses: [...latest.values()],
    totpStep: Math.max(a.totpStep, b.totpStep),
  };
}

function union(a: readonly number[], b: readonly number[]): number[] {
  return [...new Set([...a, ...b])].sort((x, y) => x - y);
}
