import { chain } from '../../../store/maybe.js';
import { stateStep } from '../../model/account-state.js';
import { STATE_TABLE } from '../../model/tables.js';
import { cleared, isClear, readState, unlocked } from '../account-state.js';
import type { Change } from '../change.js';
import type { Rule, WriteContext } from '../context.js';

const LOCK = 'pwdAccountLockedTime';

/**
 * What binds have left behind about an account goes with its entry; failures, their lock and grace logins are forgotten
 * when the password is changed, or an administrator's lock, be there one or not. The latter ends idleness, too.
 */
export const ACCOUNT_STATE: Rule = {
  name: 'account state',

  change(context, change) {
    if (!context.hasStates) return undefined;
    if (change.op === 'delete') return { steps: [{ table: STATE_TABLE.name, key: change.id, deleteRow: true }] };
    // The server itself puts stronger hashes of the same passwords in their place.
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
