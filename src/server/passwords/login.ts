import { chain, type Maybe } from '../../partition/index.js';
import type { AccountState } from '../../partition/model/account-state.js';
import { type PasswordPolicy, unverifiableReason } from '../../password/index.js';
import type { StateDirectory } from '../processes/replica-states.js';
import type { AccountPolicy } from './account-policy.js';
import {
  type Admission,
  admit,
  admitApplication,
  effectiveState,
  isLockedOut,
  sessionExpiry,
  stateAfterFailure,
} from './account-status.js';
import { usesAfter } from './application-password.js';
import type { RowCredentials } from './credentials.js';

/** A bind attempt on an account that is under a policy. */
export class Login {
  readonly #policy: AccountPolicy;
  readonly #credentials: RowCredentials;
  readonly #directory: Pick<StateDirectory, 'accountState' | 'changeAccountState'>;
  readonly #id: Buffer;
  /** The account state that was read last. */
  #storedState: AccountState | undefined;

  constructor(directory: StateDirectory, id: Buffer, policy: AccountPolicy, credentials: RowCredentials) {
    this.#directory = directory;
    this.#id = id;
    this.#policy = policy;
    this.#credentials = credentials;
  }

  isLocked(): Maybe<boolean> {
    return chain(this.#directory.accountState(this.#id), (stored) => {
      this.#storedState = stored;
      const { account } = this.#credentials;
      return isLockedOut(this.#policy, account, effectiveState(this.#credentials, stored), Date.now());
    });
  }

  /** Returns when a session that begins now ends; see `sessionExpiry`. */
  sessionEnd(): number | undefined {
    const { account } = this.#credentials;
    return sessionExpiry(this.#policy, account, effectiveState(this.#credentials, this.#storedState), Date.now());
  }

  /**
   * Records a wrong password. Resolves with false when failures do not count. Failures of an entry whose hashes cannot
   * be verified never count: its right password fails, too.
   */
  async recordFailure(hashPolicy: PasswordPolicy): Promise<boolean> {
    if (unverifiableReason(this.#credentials.passwords, hashPolicy) !== undefined) return false;
    let newState: AccountState | undefined;
    await this.#directory.changeAccountState(this.#id, (stored) => {
      newState = stateAfterFailure(this.#policy, effectiveState(this.#credentials, stored), Date.now());
      return newState;
    });
    return newState !== undefined;
  }

  /**
   * Admits a bind with a right password; undefined: the account has been locked meanwhile, or the TOTP code was used
   * before. Stores the new state before it resolves. `reread`: whether time has passed since `isLocked`, so that the
   * state has to be read again.
   */
  admit(reread: boolean, verifiedPassword: VerifiedPassword): Maybe<Admission | undefined> {
    const stored = reread ? this.#directory.accountState(this.#id) : this.#storedState;
    return chain(stored, (state) => {
      const admission = this.#evaluate(state, verifiedPassword);
      return admission?.state ? this.#storeAdmission(verifiedPassword) : admission;
    });
  }

  #evaluate(stored: AccountState | undefined, { application, totpSteps }: VerifiedPassword): Admission | undefined {
    const { account, applications } = this.#credentials;
    const state = effectiveState(this.#credentials, stored);
    const now = Date.now();
    if (isLockedOut(this.#policy, account, state, now)) return undefined;
    if (application !== undefined)
      return admitApplication(this.#policy, state, usesAfter(state.uses, application, applications, now), now);
    const admission = admit(this.#policy, account, state, now);
    if (!totpSteps || admission.isExpired) return admission;
    const totpStep = totpSteps.find((step) => step > state.totpStep);
    return totpStep === undefined ? undefined : { ...admission, state: { ...(admission.state ?? state), totpStep } };
  }

  async #storeAdmission(verifiedPassword: VerifiedPassword): Promise<Admission | undefined> {
    let admission: Admission | undefined;
    await this.#directory.changeAccountState(this.#id, (stored) => {
      admission = this.#evaluate(stored, verifiedPassword);
      return admission?.state;
    });
    return admission;
  }
}

/** The password that a bind has verified. */
export interface VerifiedPassword {
  /** Id of the application password; undefined: a password of the entry. */
  readonly application?: string | undefined;
  /** TOTP time steps, in ascending order, that the code after the password matches. */
  readonly totpSteps?: readonly number[] | undefined;
}

/** Records the use of an application password of an entry without a policy. */
export function recordUse(
  directory: StateDirectory,
  id: Buffer,
  credentials: RowCredentials,
  application: string,
): Maybe<void> {
  const newState = (stored: AccountState | undefined): AccountState | undefined => {
    const state = effectiveState(credentials, stored);
    const uses = usesAfter(state.uses, application, credentials.applications, Date.now());
    return uses && { ...state, uses };
  };
  return chain(directory.accountState(id), (stored) =>
    newState(stored) ? directory.changeAccountState(id, newState) : undefined,
  );
}
