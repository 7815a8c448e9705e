import { LdapError } from '../../ldap/ldap-error.js';
import type { Maybe } from '../../store/contract.js';
import { chain } from '../../store/maybe.js';
import { guardsHold } from '../../store/store-error.js';
import {
  type AccountState,
  decoyStep,
  NO_STATE,
  type StoredState,
  stateOfRow,
  stateStep,
} from '../model/account-state.js';
import { MASTER, MASTER_TABLE, normRdnOf, Q, STATE_TABLE } from '../model/tables.js';
import { MAX_TRIES } from '../model/thresholds.js';
import type { WriteContext } from './context.js';

/** What binds have left behind about the account of an entry; undefined: nothing. */
export function readState({ store, hasStates }: WriteContext, id: Buffer): Maybe<StoredState | undefined> {
  if (!hasStates) return undefined;
  return chain(store.get(STATE_TABLE.name, id), (row) => row && stateOfRow(row));
}

/** The state as it shall be, or undefined where it stays as it is. Called again where others were faster. */
export type StateEdit = (state: AccountState | undefined) => AccountState | undefined;

/**
 * Changes the state of an account, exactly, whoever else does so: no change of the entry. An entry that has gone has
 * none. Changes of one account that are made in this process take turns.
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
  const isThere = { op: 'equals', family: MASTER.treeInfo, qualifier: Q.normRdn, value: normRdnOf(head) } as const;
  const entry = { table: MASTER_TABLE.name, key: id, guards: [isThere] };
  return guardsHold(store.commit({ steps: [stateStep(id, state, stored?.version ?? 0n), entry], decisive: 0 }));
}

/** Forgets failures, their lock and grace logins. */
export async function clearState(context: WriteContext, id: Buffer): Promise<void> {
  await changeState(context, id, unlocked);
}

/** Takes as long as a change of somebody's state. */
export async function changeDecoyState({ store, hasStates }: WriteContext): Promise<void> {
  if (hasStates) await store.commit({ steps: [decoyStep()], decisive: 0 });
}

export function isClear({ failures, lockedUntil, graceUses, since }: AccountState): boolean {
  return failures.length === 0 && lockedUntil === 0 && graceUses.length === 0 && since === 0;
}

/** What is left when the account was unlocked: it counts as used now, however idle it was. */
export function unlocked(state = NO_STATE): AccountState {
  return { ...cleared(state), since: Date.now() };
}

/** What is left when the password was changed. */
export function cleared(state: AccountState): AccountState {
  const { lastSuccess, uses, totpStep } = state;
  return { ...NO_STATE, lastSuccess, uses, totpStep };
}
