import type { Maybe } from '../../store/contract.js';
import type { Sight } from './viewer/viewer.js';

/** One entry found. All buffers are the caller's to read only until `entry` returns or its promise resolves. */
export interface Hit {
  readonly id: Buffer;
  /** Packed master row, without what the viewer may not read; secrets stand in it. */
  readonly row: Buffer;
  /** DN, UTF-8. */
  readonly dn: Buffer;
  /** What the viewer may see of it; undefined: all but secrets. */
  readonly sight: Sight | undefined;
  hasSubordinates(): Maybe<boolean>;
  numSubordinates(): Maybe<number>;
}

export interface SearchSink {
  /** A promise pauses the search until it resolves: back-pressure. */
  entry(hit: Hit): Maybe<void>;
  reference(urls: readonly string[]): Maybe<void>;
}
