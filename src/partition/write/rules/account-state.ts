import { chain } from '../../../store/maybe.js';
import { stateStep } from '../../model/account-state.js';
import { STATE_TABLE } from '../../model/tables.js';
import { cleared, isClear, readState } from '../account-state.js';
import type { Change } from '../change.js';
import type { Rule, WriteContext } from '../context.js';

const LOCK = 'pwdAccountLockedTime';

/**
 * What binds have left behind about an account goes with its entry; failures, their lock and grace logins are forgotten
 * when the password is changed, or an administrator's lock.
 */
export const ACCOUNT_STATE: Rule = {
  name: 'account state',

  change(context, change) {
    if (!context.hasStates) return undefined;
    if (change.op === 'delete') return { steps: [{ table: STATE_TABLE.name, key: change.id, deleteRow: true }] };
    // The server itself puts stronger hashes of the same passwords in their place.
    if (change.op !== 'modify' || change.actor.dn === '' || !isUnlocking(context, change)) return undefined;
    return chain(readState(context, change.id), (stored) => {
      if (!stored || isClear(stored.state)) return undefined;
      return { steps: [stateStep(change.id, cleared(stored.state), stored.version)] };
    });
  },
};

/** Whether it changes the password, or replaces or takes away an administrator's lock, be there one or not. */
function isUnlocking({ schema }: WriteContext, { modifications = [] }: Change): boolean {
  return modifications.some(({ operation, attribute: { type } }) => {
    const name = schema.describe(type)?.type.name;
    return name === 'userPassword' || (name === LOCK && operation !== 'add');
  });
}
