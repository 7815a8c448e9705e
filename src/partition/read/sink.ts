import type { Maybe } from '../../store/contract.js';
import type { Sight } from '../model/viewer.js';

/** The row of a dynamic group, to which members were added as values. */
export interface MembersRow {
  readonly row: Buffer;
  /** Whether the group has more members than were added. */
  readonly hasMore: boolean;
}

/** An entry that a search has found. The buffers are valid until `SearchSink.entry` returns or its promise resolves. */
export interface Hit {
  readonly id: Buffer;
  /** Packed master row. Lacks attributes that the viewer may not read, but has secrets. */
  readonly row: Buffer;
  /** DN, UTF-8. */
  readonly dn: Buffer;
  /** The viewer's rights on the attributes; undefined: all except secrets. */
  readonly sight: Sight | undefined;
  hasSubordinates(): Maybe<boolean>;
  numSubordinates(): Maybe<number>;
  /** Returns the DNs of those groups of the entry whose membership the viewer may read. */
  memberOf(): Maybe<readonly Buffer[]>;
  /** Adds the members that URLs select to the row of a dynamic group, up to `limit`; none with ManageDsaIT. */
  withMembers(limit: number): Maybe<MembersRow>;
}

export interface SearchSink {
  /** Receives an entry. If it returns a promise, the search waits for it. */
  entry(hit: Hit): Maybe<void>;
  reference(urls: readonly string[]): Maybe<void>;
}
