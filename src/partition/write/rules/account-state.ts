import { chain } from '../../../store/maybe.js';
import { stateStep } from '../../model/account-state.js';
import { STATE_TABLE } from '../../model/tables.js';
import { cleared, isClear, readState, unlocked } from '../account-state.js';
import type { Change } from '../change.js';
import type { Rule, WriteContext } from '../context.js';

const LOCK = 'pwdAccountLockedTime';

/**
 * Deletes the account state with its entry. Clears failures, their lock and grace logins when the password changes, or
 * when a modify deletes or replaces the administrator's lock, even if there is none. The latter also ends idleness.
 */
export const ACCOUNT_STATE: Rule = {
  name: 'account state',

  checkChange(context, change) {
    if (!context.hasStates) return undefined;
    if (change.op === 'delete') return { steps: [{ table: STATE_TABLE.name, key: change.id, deleteRow: true }] };
    // The server itself, an actor without DN, replaces hashes of unchanged passwords.
    if (change.op !== 'modify' || change.actor.dn === '') return undefined;
    const unlocks = touches(context, change, LOCK);
    if (!unlocks && !touches(context, change, 'userPassword')) return undefined;
    return chain(readState(context, change.id), (stored) => {
      if (!unlocks && (!stored || isClear(stored.state))) return undefined;
      const state = unlocks ? unlocked(stored?.state) : cleared(stored!.state);
      return { steps: [stateStep(change.id, state, stored?.version ?? 0n)] };
    });
  },
};

function touches({ schema }: WriteContext, { modifications = [] }: Change, name: string): boolean {
  return modifications.some(
    ({ operation, attribute: { type } }) =>
      schema.describe(type)?.type.name === name && (name !== LOCK || operation !== 'add'),
  );
}
