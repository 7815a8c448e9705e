import type { Maybe } from '../../../store/contract.js';
import type { SearchSink } from '../sink.js';

export interface Order {
  /** Returns the stage that puts entries into order before they reach `sink`. */
  stage(sink: SearchSink): OrderStage;
}

/** A stage between a search and its sink that passes the entries on in another order, and may keep them meanwhile. */
export interface OrderStage extends SearchSink {
  /** Called after the last entry: passes on the kept entries. Not called where the search fails. */
  end(): Maybe<void>;
}
