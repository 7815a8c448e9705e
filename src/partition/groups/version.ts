import type { Maybe, Store } from '../../store/contract.js';
import { chain } from '../../store/maybe.js';
import { GROUPS_KEY, groupChanges, mayHaveUids } from '../model/group-rows.js';
import { META_TABLE } from '../model/tables.js';
import type { PartitionContext } from '../tree/partition-context.js';

/** What the version of the groups is asked of. */
interface VersionContext extends Pick<PartitionContext, 'shared'> {
  readonly store: Store;
}

/** What is known of the groups at one moment. */
export interface GroupsState {
  readonly version: bigint;
  /** Whether a member may be named with a UID. */
  readonly uids: boolean;
}

/**
 * Its version is another number, and a greater one, whenever a group may have another member: what row `groups` counts,
 * or another shared row, which tells of names that have changed. It means nothing to other processes.
 */
export function groupsState(context: VersionContext): Maybe<GroupsState> {
  const { shared, store } = context;
  return chain(
    shared.ahead(() => store.get(META_TABLE.name, GROUPS_KEY)),
    (row) => {
      const version = groupChanges(row) + BigInt(shared.generation);
      return { version: store.quiet ? version + quietTimes(store, version) : version, uids: mayHaveUids(row) };
    },
  );
}

export function groupsVersion(context: VersionContext): Maybe<bigint> {
  return chain(groupsState(context), ({ version }) => version);
}

/** What is known of a store whose plans may be seen half done. */
interface Watched {
  version: bigint | undefined;
  waiting: boolean;
  /** How often all plans of a version were found to be wholly done. */
  times: bigint;
}

const watched = new WeakMap<Store, Watched>();

/**
 * A plan may be counted before its other rows are there: what was read meanwhile is of the version, and wrong. So the
 * number changes once more when everything that was decided is done.
 */
function quietTimes(store: Store, version: bigint): bigint {
  const state = watched.get(store) ?? { version: undefined, waiting: false, times: 0n };
  watched.set(store, state);
  if (version !== state.version && !state.waiting) {
    state.version = version;
    state.waiting = true;
    void awaitQuiet(store, state);
  }
  return state.times;
}

/** Where the store fails, whoever asks next waits again. */
async function awaitQuiet(store: Store, state: Watched): Promise<void> {
  try {
    await store.quiet!();
    state.times++;
  } catch {
    state.version = undefined;
  } finally {
    state.waiting = false;
  }
}
