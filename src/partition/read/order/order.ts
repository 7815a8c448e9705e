import type { Maybe } from '../../../store/contract.js';
import type { Index, IndexSet } from '../../model/index-set.js';
import type { Sight } from '../../model/viewer.js';
import type { SearchSink } from '../sink.js';

export interface Order {
  /** Returns a stage that sorts entries before they reach `sink`. */
  stage(sink: SearchSink): OrderStage;
}

/** A stage between a search and its sink that passes entries on in another order, for which it may collect them. */
export interface OrderStage extends SearchSink {
  /** Passes the collected entries on. Called after the last entry, unless the search fails. */
  end(): Maybe<void>;
}

/** An order in which a search can examine entries, if an index has that order. */
export interface IndexWalk {
  /** Returns the index that has the order; undefined if none has. */
  indexIn(indexes: IndexSet): Index | undefined;
  /** Returns the normal form (cut) that places an entry in the index; undefined if the viewer sees no such value. */
  normOf(row: Buffer, sight: Sight | undefined): Buffer | undefined;
}
