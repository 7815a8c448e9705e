import type { Maybe } from '../../../store/contract.js';
import type { SearchSink } from '../sink.js';

/** How entries are to be ordered. */
export interface Order {
  stage(sink: SearchSink): OrderStage;
}

/**
 * Between a search and its sink: takes the entries as they are found and gives them on in another order. It may keep
 * them until then.
 */
export interface OrderStage extends SearchSink {
  /** All have been found: gives on what is still here. Not called where the search fails. */
  end(): Maybe<void>;
}
