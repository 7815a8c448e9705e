import { LdapError } from '../../../ldap/ldap-error.js';
import { generalizedTimeMs } from '../../../schema/time.js';
import { chain } from '../../../store/maybe.js';
import { lockTimeOf, NO_STATE, stateStep } from '../../model/account-state.js';
import { STATE_TABLE } from '../../model/tables.js';
import { isUnrestricted, readState, stateAfterPasswordChange, unlockedState } from '../account-state.js';
import type { Change, Rule, WriteContext } from '../context.js';

const LOCK_ATTRIBUTE = 'pwdAccountLockedTime';

/**
 * Deletes the account state with its entry. Clears failures, their lock and grace logins when the password changes, or
 * when a modify deletes or replaces the administrator's lock, even if there is none. The latter also ends the account's
 * being idle.
 */
export const ACCOUNT_STATE: Rule = {
  name: 'account state',

  checkChange(context, change) {
    if (!context.hasStates) {
      requireLockTimes(change.lockTimes);
      return undefined;
    }
    if (change.op === 'delete') return { steps: [{ table: STATE_TABLE.name, key: change.id, deleteRow: true }] };
    // Ignore the server itself, an actor without DN: it replaces hashes of unchanged passwords.
    if (change.op !== 'modify' || change.actor.dn === '') return undefined;
    const isUnlocked = changesAttribute(context, change, LOCK_ATTRIBUTE);
    if (!isUnlocked && !changesAttribute(context, change, 'userPassword')) return undefined;
    return chain(readState(context, change.id), (stored) => {
      requireLockTimes(change.lockTimes, stored?.state);
      if (!isUnlocked && (!stored || isUnrestricted(stored.state))) return undefined;
      const state = isUnlocked ? unlockedState(stored?.state) : stateAfterPasswordChange(stored!.state);
      return { steps: [stateStep(change.id, state, stored?.version ?? 0n)] };
    });
  },
};

/** Throws `noSuchAttribute` if one of the deleted lock times is not that of the lock which failed binds made. */
function requireLockTimes(lockTimes: readonly Buffer[] = [], state = NO_STATE): void {
  const lockTime = lockTimeOf(state, Date.now());
  if (lockTimes.some((value) => !lockTime || generalizedTimeMs(value) !== generalizedTimeMs(lockTime)))
    throw new LdapError('noSuchAttribute', `the account has no such '${LOCK_ATTRIBUTE}'`);
}

function changesAttribute({ schema }: WriteContext, { modifications = [] }: Change, name: string): boolean {
  return modifications.some(({ operation, attribute: { type } }) => {
    const description = schema.describe(type);
    if (description?.type.name !== name) return false;
    return name !== LOCK_ATTRIBUTE || (operation !== 'add' && description.options.length === 0);
  });
}
