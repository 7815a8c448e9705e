import type { Maybe } from '../../store/contract.js';
import type { Sight } from '../model/viewer.js';

/** The row of a dynamic group with its members in it. */
export interface MembersRow {
  readonly row: Buffer;
  /** There are more members than are in it. */
  readonly more: boolean;
}

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
  /** DNs of the groups that it is in, as far as the viewer may read of them. */
  memberOf(): Maybe<readonly Buffer[]>;
  /**
   * Of a dynamic group its row as if the members that its URLs find stood in it, `most` members at most; as it is for
   * who wants entries as they are stored.
   */
  withMembers(most: number): Maybe<MembersRow>;
}

export interface SearchSink {
  /** A promise pauses the search until it resolves: back-pressure. */
  entry(hit: Hit): Maybe<void>;
  reference(urls: readonly string[]): Maybe<void>;
}
