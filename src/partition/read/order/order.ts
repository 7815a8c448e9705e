import type { Maybe } from '../../../store/contract.js';
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
