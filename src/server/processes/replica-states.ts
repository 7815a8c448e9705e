import { BoundedMap } from '../../cache/bounded-map.js';
import { chain, type Maybe, type Partition } from '../../partition/index.js';
import { type AccountState, NO_STATE } from '../../partition/model/account-state.js';

/** Reads and changes what binds record of accounts. */
export type StateDirectory = Pick<Partition, 'accountState' | 'changeAccountState' | 'changeDecoyState'>;

/** Most accounts whose state is kept while the primary is away. */
const MAX_ACCOUNTS = 100_000;

/** A bind on a replica that would record something: the primary is asked instead. */
export class PrimaryNeeded extends Error {}

/**
 * The states of accounts on a replica. While the primary is reached, whoever would change one throws `PrimaryNeeded`,
 * so that failures at several replicas are one count. While it is away, changes are kept here, and handed on later.
 */
export class ReplicaStates implements StateDirectory {
  readonly #partition: StateDirectory;
  readonly #primary: { readonly isReached: boolean };
  readonly #own = new BoundedMap<string, AccountState>(MAX_ACCOUNTS, 'oldest');

  constructor(partition: StateDirectory, primary: { readonly isReached: boolean }) {
    this.#partition = partition;
    this.#primary = primary;
  }

  accountState(id: Buffer): Maybe<AccountState | undefined> {
    const own = this.#own.size > 0 ? this.#own.get(id.toString('hex')) : undefined;
    return own ?? this.#partition.accountState(id);
  }

  changeAccountState(...[id, edit]: Parameters<StateDirectory['changeAccountState']>): Promise<void> {
    this.#requireAway();
    const changed = chain(this.accountState(id), (state) => {
      const newState = edit(state);
      if (newState) this.#own.set(id.toString('hex'), newState);
    });
    return Promise.resolve(changed);
  }

  async changeDecoyState(): Promise<void> {
    this.#requireAway();
  }

  #requireAway(): void {
    if (this.#primary.isReached) throw new PrimaryNeeded('the primary records this bind');
  }

  /** Hands the states on to `send`, and forgets those that it has taken. */
  async handOn(send: (states: readonly (readonly [string, AccountState])[]) => Promise<void>): Promise<void> {
    const states = [...this.#own.entries()];
    if (states.length === 0) return;
    await send(states);
    for (const [id, state] of states) if (this.#own.get(id) === state) this.#own.delete(id);
  }
}

/** Returns the state of an account that was counted at two servers. */
export function mergeStates(a: AccountState = NO_STATE, b: AccountState): AccountState {
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
