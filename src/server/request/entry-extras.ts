import type { Hit } from '../../partition/read/sink.js';
import type { SearchRequest } from '../../protocol/ldap-messages.js';
import type { EntryExtras } from '../entry/reply-entry.js';
import type { Selection } from '../entry/selection.js';
import { chain, type Maybe } from '../words/maybe.js';
import { accountUsability } from './account-usability.js';
import type { Context } from './context.js';
import { effectiveRights } from './effective-rights.js';
import { stateAttributes } from './state-attributes.js';

/** Returns the parts of a found entry that are not in its row; undefined: none. */
export type ExtrasReader = (hit: Hit) => Maybe<EntryExtras | undefined>;

const EMPTY = Buffer.alloc(0);

/** Returns the reader of extras for the controls and selected attributes of a search; undefined: no extras. */
export function extrasReader(
  context: Context,
  request: SearchRequest,
  { stateAttributes: selected }: Selection,
): Maybe<ExtrasReader | undefined> {
  const { effectiveRights: rights, accountUsability: usability } = context.controls;
  const states = selected.length > 0 ? stateAttributes(context, selected, request.typesOnly) : undefined;
  if (rights || usability) return extrasWithControls(context, request, states);
  return states && ((hit) => chain(states(hit), (extras) => extras && { ...extras, controls: EMPTY }));
}

async function extrasWithControls(
  context: Context,
  request: SearchRequest,
  states: ReturnType<typeof stateAttributes> | undefined,
): Promise<ExtrasReader | undefined> {
  const rights = await effectiveRights(context, request);
  const usability = context.controls.accountUsability ? accountUsability(context) : undefined;
  return async (hit) => {
    const state = await states?.(hit);
    const attributeParts = [state?.attributes ?? EMPTY, (await rights?.(hit)) ?? EMPTY];
    const controls = (await usability?.(hit)) ?? EMPTY;
    return { attributes: Buffer.concat(attributeParts), controls, replacedStates: state?.replacedStates };
  };
}
