import type { Hit } from '../../partition/read/sink.js';
import type { SearchRequest } from '../../protocol/ldap-messages.js';
import type { Beside } from '../entry/reply-entry.js';
import type { Selection } from '../entry/selection.js';
import { chain, type Maybe } from '../words/maybe.js';
import { accountUsability } from './account-usability.js';
import type { Context } from './context.js';
import { effectiveRights } from './effective-rights.js';
import { stateAttributes } from './state-attributes.js';

/** Tells of an entry found what is not in its row; undefined: nothing. */
export type Teller = (hit: Hit) => Maybe<Beside | undefined>;

const NOTHING = Buffer.alloc(0);

/** What the controls of a search, and attributes that it selects, have each entry tell; undefined: nothing. */
export function besideEntries(
  context: Context,
  request: SearchRequest,
  { states: asked }: Selection,
): Maybe<Teller | undefined> {
  const { effectiveRights: rights, accountUsability: usability } = context.controls;
  const states = asked.length > 0 ? stateAttributes(context, asked, request.typesOnly) : undefined;
  if (rights || usability) return withControls(context, request, states);
  return states && ((hit) => chain(states(hit), (told) => told && { ...told, controls: NOTHING }));
}

async function withControls(
  context: Context,
  request: SearchRequest,
  states: ReturnType<typeof stateAttributes> | undefined,
): Promise<Teller | undefined> {
  const rights = await effectiveRights(context, request);
  const usability = context.controls.accountUsability ? accountUsability(context) : undefined;
  return async (hit) => {
    const state = await states?.(hit);
    const parts = [state?.attributes ?? NOTHING, (await rights?.(hit)) ?? NOTHING];
    const controls = (await usability?.(hit)) ?? NOTHING;
    return { attributes: Buffer.concat(parts), controls, instead: state?.instead };
  };
}
