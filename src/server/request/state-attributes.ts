import { type AccountState, STATE_ATTRIBUTES, type StateAttribute } from '../../partition/model/account-state.js';
import type { Hit } from '../../partition/read/sink.js';
import { encodeAttribute } from '../../protocol/encode.js';
import { Writer } from '../../protocol/writer.js';
import type { AttributeDescription } from '../../schema/schema-types.js';
import type { Beside } from '../entry/reply-entry.js';
import { isHolding } from '../passwords/account-lock.js';
import { stateValues } from '../passwords/state-attributes.js';
import type { Services } from '../services/services.js';
import { chain, type Maybe } from '../words/maybe.js';
import type { Context } from './context.js';

type Values = Readonly<Record<StateAttribute, readonly Buffer[]>>;

/** Whether binds leave behind what the attribute tells. */
export function isOfState({ type, options }: AttributeDescription): boolean {
  return options.length === 0 && (STATE_ATTRIBUTES as readonly string[]).includes(type.name);
}

/** What it is worked out from. */
export type StateServices = Pick<Services, 'credentials' | 'policies'> & {
  readonly partition: Pick<Services['partition'], 'accountState' | 'readById'>;
};

/**
 * What binds have left behind about an account, as attributes; undefined: nothing, the entry alone tells.
 * `lockoutDuration`: that a lock is told by where no policy is known; undefined: it is not told.
 */
export function statesOf(services: StateServices, id: Buffer, lockoutDuration?: number): Maybe<Values | undefined> {
  const now = Date.now();
  return chain(services.partition.accountState(id), (state) => {
    if (!state) return undefined;
    if (state.lockedUntil <= now) return stateValues(state, undefined, now);
    return withLock(services, id, state, now, lockoutDuration);
  });
}

async function withLock(
  { partition, credentials, policies }: StateServices,
  id: Buffer,
  state: AccountState,
  now: number,
  otherwise: number | undefined,
): Promise<Values> {
  const entry = await partition.readById(id);
  const own = entry && credentials.ofRow(entry.row);
  const policy = own && (await policies.ofBinds(id, own));
  // One by an administrator comes first, as long as it holds.
  const isTold = own?.lock?.name.toLowerCase() === 'pwdaccountlockedtime' && isHolding(own.lock, policy, now);
  return stateValues(state, isTold ? undefined : (policy?.lockoutDuration ?? otherwise), now);
}

/**
 * What of this the viewer of an entry may read, of the attributes `asked`, encoded, in place of what is stored;
 * undefined where the entry alone tells.
 */
export function stateAttributes(
  { services }: Context,
  asked: readonly AttributeDescription[],
  typesOnly: boolean,
): (hit: Hit) => Maybe<Pick<Beside, 'attributes' | 'instead'> | undefined> {
  return ({ id, sight }) =>
    chain(statesOf(services, id), (values) => {
      if (!values) return undefined;
      const writer = new Writer();
      for (const description of asked) {
        const found = values[description.type.name as StateAttribute];
        if (found.length === 0 || (sight && !sight.all('read') && !sight.allows('read', description))) continue;
        encodeAttribute(writer, { type: description.text, values: typesOnly ? [] : [...found] });
      }
      const instead = values.pwdAccountLockedTime.length > 0 ? 'states and lock' : 'states';
      return { attributes: writer.take(), instead };
    });
}
