import type { Maybe } from '../../store/contract.js';
import type { Sight } from '../model/viewer.js';

/** The row of a dynamic group with its members as values. */
export interface MembersRow {
  readonly row: Buffer;
  /** Whether the group has more members than the row holds. */
  readonly hasMore: boolean;
}

/** An entry that a search has found. The buffers are valid until `SearchSink.entry` returns or its promise resolves. */
export interface Hit {
  readonly id: Buffer;
  /** Packed master row without the attributes that the viewer may not read, but with secrets. */
  readonly row: Buffer;
  /** DN, UTF-8. */
  readonly dn: Buffer;
  /** The viewer's rights to the attributes; undefined: all attributes except secrets. */
  readonly sight: Sight | undefined;
  hasSubordinates(): Maybe<boolean>;
  numSubordinates(): Maybe<number>;
  /** Returns the DNs of the groups of the entry, as far as the viewer may read the membership. */
  memberOf(): Maybe<readonly Buffer[]>;
  /**
   * Returns the row of a dynamic group with the members that its URLs find as values, at most `limit` of them; under
   * ManageDsaIT the row as stored.
   */
  withMembers(limit: number): Maybe<MembersRow>;
}

export interface SearchSink {
  /** A returned promise pauses the search until the promise resolves. */
  entry(hit: Hit): Maybe<void>;
  reference(urls: readonly string[]): Maybe<void>;
}
