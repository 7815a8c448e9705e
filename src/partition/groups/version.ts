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
  /** Whether a member may be named with a UID. */
  readonly mayHaveUids: boolean;
}

/**
 * Returns the state of the groups. The version increases whenever the members of a group may have changed. It is the
 * sum of the counter in row `groups` and, because names may have changed, the generation of the shared row. Comparable
 * only within this process.
 */
export function groupsState(context: VersionContext): Maybe<GroupsState> {
  const { shared, store } = context;
  return chain(
    shared.readFresh(() => store.get(META_TABLE.name, GROUPS_KEY)),
    (row) => {
      const version = groupChanges(row) + BigInt(shared.generation);
      return {
        version: store.waitUntilQuiet ? version + completionCount(store, version) : version,
        mayHaveUids: mayHaveUids(row),
      };
    },
  );
}

export function groupsVersion(context: VersionContext): Maybe<bigint> {
  return chain(groupsState(context), ({ version }) => version);
}

/** State of a store in which incomplete plans may be visible. */
interface StoreWatch {
  version: bigint | undefined;
  isWaiting: boolean;
  /** Number of times that all decided plans were found to be completely applied. */
  completions: bigint;
}

const watchesByStore = new WeakMap<Store, StoreWatch>();

/**
 * Returns the number of completions. A plan may be counted in the version before all its rows are visible. A read at
 * that time is wrong for the version. Therefore the version changes once more when all decided plans are completely
 * applied.
 */
function completionCount(store: Store, version: bigint): bigint {
  const watch = watchesByStore.get(store) ?? { version: undefined, isWaiting: false, completions: 0n };
  watchesByStore.set(store, watch);
  if (version !== watch.version && !watch.isWaiting) {
    watch.version = version;
    watch.isWaiting = true;
    void awaitQuiet(store, watch);
  }
  return watch.completions;
}

/** Waits until all decided plans are applied. If the store fails, the next caller waits again. */
async function awaitQuiet(store: Store, watch: StoreWatch): Promise<void> {
  try {
    await store.waitUntilQuiet!();
    watch.completions++;
  } catch {
    // The error is that of the store, which the caller meets at the next read. Then the wait begins anew.
    watch.version = undefined;
  } finally {
    watch.isWaiting = false;
  }
}
