import { LdapError } from '../../ldap/ldap-error.js';
import type { Maybe } from '../../store/contract.js';
import { batchesOf, chain } from '../../store/maybe.js';
import { guardsHold } from '../../store/store-error.js';
import {
  type AccountState,
  decoyStep,
  HAS_LOCK,
  lockTimeOf,
  NO_STATE,
  type StoredState,
  stateOfRow,
  stateStep,
} from '../model/account-state.js';
import { MASTER, MASTER_TABLE, normRdnOf, Q, STATE_TABLE } from '../model/tables.js';
import { MAX_TRIES } from '../model/thresholds.js';
import type { WriteContext } from './context.js';

/** Returns the stored state of an account; undefined if no bind has stored any. */
export function readState({ store, hasStates }: WriteContext, id: Buffer): Maybe<StoredState | undefined> {
  if (!hasStates) return undefined;
  return chain(store.get(STATE_TABLE.name, id), (row) => row && stateOfRow(row));
}

/**
 * Returns the ids of the accounts that failed binds have locked until after `now` (ms since 1970). Reads the states of
 * all accounts. `pause` is called between batches of rows, and may throw.
 */
export async function lockedIds(
  { store, hasStates }: WriteContext,
  now: number,
  pause: () => Maybe<void>,
): Promise<Buffer[]> {
  const ids: Buffer[] = [];
  if (!hasStates) return ids;
  for await (const { keys, rows } of batchesOf(store.scan(STATE_TABLE.name, {}, { filter: HAS_LOCK }))) {
    ids.push(...keys.filter((_, i) => lockTimeOf(stateOfRow(rows[i]!).state, now)));
    await pause();
  }
  return ids;
}

/** Returns the new state; undefined for no change. Called again if another process has changed the state. */
export type StateEdit = (state: AccountState | undefined) => AccountState | undefined;

/**
 * Changes the state of an account atomically, but not the entry. A deleted entry has no state. Within this process,
 * changes of one account are made one after another.
 */
export async function changeState(context: WriteContext, id: Buffer, edit: StateEdit): Promise<void> {
  const key = `state ${id.toString('latin1')}`;
  await context.locks.acquire(key);
  try {
    for (let tries = 1; !(await tryChange(context, id, edit)); tries++) {
      if (tries === MAX_TRIES) throw new LdapError('busy', 'others keep binding to this account; try again');
      await new Promise((resolve) => setTimeout(resolve, Math.random() * Math.min(tries, 20)));
      context.store.renewReads?.();
    }
  } finally {
    context.locks.release(key);
  }
}

async function tryChange(context: WriteContext, id: Buffer, edit: StateEdit): Promise<boolean> {
  const { store } = context;
  const [stored, head] = await Promise.all([readState(context, id), store.getHead(MASTER_TABLE.name, id, true)]);
  const state = edit(stored?.state);
  if (!state || !head) return true;
  const existsGuard = { op: 'equals', family: MASTER.treeInfo, qualifier: Q.normRdn, value: normRdnOf(head) } as const;
  const entry = { table: MASTER_TABLE.name, key: id, guards: [existsGuard] };
  return guardsHold(store.commit({ steps: [stateStep(id, state, stored?.version ?? 0n), entry], decisive: 0 }));
}

/** Clears the failed logins of an account, the lock that they caused, and its grace logins. */
export async function clearState(context: WriteContext, id: Buffer): Promise<void> {
  await changeState(context, id, unlockedState);
}

/** Makes a commit as costly as `changeState`: the time of a bind must not tell whether the account exists. */
export async function commitDecoy({ store, hasStates }: WriteContext): Promise<void> {
  if (hasStates) await store.commit({ steps: [decoyStep()], decisive: 0 });
}

/** Whether the state has no failures, no lock, no grace logins and no time of an unlock. */
export function isUnrestricted({ failures, lockedUntil, graceUses, since }: AccountState): boolean {
  return failures.length === 0 && lockedUntil === 0 && graceUses.length === 0 && since === 0;
}

/** Returns the state after an unlock. It counts as use of the account, which therefore is not idle. */
export function unlockedState(state = NO_STATE): AccountState {
  return { ...stateAfterPasswordChange(state), since: Date.now() };
}

export function stateAfterPasswordChange(state: AccountState): AccountState {
  const { lastSuccess, uses, totpStep } = state;
  return { ...NO_STATE, lastSuccess, uses, totpStep };
}
