import { chain, isPromise, type Maybe, type Partition } from '../../partition/index.js';
import type { AccountState } from '../../partition/model/account-state.js';
import type { AccountPolicy } from './account-policy.js';
import { usesAfter } from './application-password.js';
import type { RowCredentials } from './credentials.js';
import {
  type Admission,
  admission,
  admissionOfApplication,
  afterFailure,
  endOfSessions,
  isLockedOut,
  stateOf,
} from './standing.js';

type StateDirectory = Pick<Partition, 'accountState' | 'changeAccountState'>;

/** The account that a bind names, under a policy. */
export class Login {
  readonly #policy: AccountPolicy;
  readonly #own: RowCredentials;
  readonly #directory: StateDirectory;
  readonly #id: Buffer;
  /** What was read last. */
  #stored: AccountState | undefined;

  constructor(directory: StateDirectory, id: Buffer, policy: AccountPolicy, own: RowCredentials) {
    this.#directory = directory;
    this.#id = id;
    this.#policy = policy;
    this.#own = own;
  }

  /** Whether nobody binds, whatever the password. */
  isLocked(): Maybe<boolean> {
    const stored = this.#directory.accountState(this.#id);
    return isPromise(stored) ? stored.then((state) => this.#isLocked(state)) : this.#isLocked(stored);
  }

  #isLocked(stored: AccountState | undefined): boolean {
    this.#stored = stored;
    const { account } = this.#own;
    return isLockedOut(this.#policy, account, stateOf(account, stored), Date.now());
  }

  /** See `endOfSessions`: of one that begins now. */
  sessionEnd(): number | undefined {
    const { account } = this.#own;
    return endOfSessions(this.#policy, account, stateOf(account, this.#stored), Date.now());
  }

  /** Counts a wrong password; false: it does not count. */
  async fail(): Promise<boolean> {
    let after: AccountState | undefined;
    await this.#directory.changeAccountState(this.#id, (stored) => {
      after = afterFailure(this.#policy, stateOf(this.#own.account, stored), Date.now());
      return after;
    });
    return after !== undefined;
  }

  /**
   * Takes a right password; undefined: the account is locked by now. What is to be kept is kept when it resolves.
   * `later`: time has passed since `isLocked`, and the state is read again. A code that was taken before is none.
   */
  admit(later: boolean, by: Means): Maybe<Admission | undefined> {
    const stored = later ? this.#directory.accountState(this.#id) : this.#stored;
    return isPromise(stored) ? stored.then((state) => this.#admit(state, by)) : this.#admit(stored, by);
  }

  #admit(stored: AccountState | undefined, by: Means): Maybe<Admission | undefined> {
    const seen = this.#judge(stored, by);
    return seen?.state ? this.#keep(by) : seen;
  }

  #judge(stored: AccountState | undefined, { application, steps }: Means): Admission | undefined {
    const { account, applications } = this.#own;
    const state = stateOf(account, stored);
    const now = Date.now();
    if (isLockedOut(this.#policy, account, state, now)) return undefined;
    if (application !== undefined)
      return admissionOfApplication(this.#policy, state, usesAfter(state.uses, application, applications, now), now);
    const admitted = admission(this.#policy, account, state, now);
    if (!steps || admitted.expired) return admitted;
    const totpStep = steps.find((step) => step > state.totpStep);
    return totpStep === undefined ? undefined : { ...admitted, state: { ...(admitted.state ?? state), totpStep } };
  }

  async #keep(by: Means): Promise<Admission | undefined> {
    let last: Admission | undefined;
    await this.#directory.changeAccountState(this.#id, (stored) => {
      last = this.#judge(stored, by);
      return last?.state;
    });
    return last;
  }
}

/** What a right password is. */
export interface Means {
  /** Id of the application password that it is. */
  readonly application?: string | undefined;
  /** Time steps, in their order, of which the code behind it may be. */
  readonly steps?: readonly number[] | undefined;
}

/** Keeps that an application password was used, where the entry is under no policy. */
export function noteUse(
  directory: StateDirectory,
  id: Buffer,
  { account, applications }: RowCredentials,
  application: string,
): Maybe<void> {
  const after = (stored: AccountState | undefined): AccountState | undefined => {
    const state = stateOf(account, stored);
    const uses = usesAfter(state.uses, application, applications, Date.now());
    return uses && { ...state, uses };
  };
  return chain(directory.accountState(id), (stored) =>
    after(stored) ? directory.changeAccountState(id, after) : undefined,
  );
}
