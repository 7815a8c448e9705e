import type { Maybe, Store } from '../../store/contract.js';
import { chain } from '../../store/maybe.js';
import { GROUPS_KEY, groupChanges, mayHaveUids } from '../model/group-rows.js';
import { META_TABLE } from '../model/tables.js';
import type { TreeContext } from '../tree/tree-context.js';

interface VersionContext extends Pick<TreeContext, 'shared'> {
  readonly store: Store;
}

export interface GroupsState {
  readonly version: bigint;
  /** True if a member may be named with a UID. */
  readonly uids: boolean;
}

/**
 * Returns the state of the groups. The version, a number of this process, increases whenever the members of a group may
 * have changed: it adds the counter in row `groups` and, for names, the generation of the shared row.
 */
export function groupsState(context: VersionContext): Maybe<GroupsState> {
  const { shared, store } = context;
  return chain(
    shared.readFresh(() => store.get(META_TABLE.name, GROUPS_KEY)),
    (row) => {
      const version = groupChanges(row) + BigInt(shared.generation);
      return {
        version: store.waitUntilQuiet ? version + completionCount(store, version) : version,
        uids: mayHaveUids(row),
      };
    },
  );
}

export function groupsVersion(context: VersionContext): Maybe<bigint> {
  return chain(groupsState(context), ({ version }) => version);
}

/** Observation of a store in which incomplete plans may be visible. */
interface StoreWatch {
  version: bigint | undefined;
  waiting: boolean;
  /** Number of times that all plans of a version were complete. */
  completions: bigint;
}

const watched = new WeakMap<Store, StoreWatch>();

/**
 * Returns the number of completions. A plan may be counted before its other rows are visible, and a read in between is
 * wrong for the version. Therefore the version changes once more when all decided plans are complete.
 */
function completionCount(store: Store, version: bigint): bigint {
  const state = watched.get(store) ?? { version: undefined, waiting: false, completions: 0n };
  watched.set(store, state);
  if (version !== state.version && !state.waiting) {
    state.version = version;
    state.waiting = true;
    void awaitQuiet(store, state);
  }
  return state.completions;
}

/** Waits for the completion of all plans. If the store fails, the next caller waits again. */
async function awaitQuiet(store: Store, state: StoreWatch): Promise<void> {
  try {
    await store.waitUntilQuiet!();
    state.completions++;
  } catch {
    state.version = undefined;
  } finally {
    state.waiting = false;
  }
}
