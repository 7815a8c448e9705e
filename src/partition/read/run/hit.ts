import type { Maybe } from '../../../store/contract.js';
import { chain } from '../../../store/maybe.js';
import type { Sight } from '../../model/viewer.js';
import type { SearchParams } from '../search-params.js';
import type { Hit, MembersRow } from '../sink.js';
import type { SearchContext } from './search-context.js';
import { countVisibleChildren, hasVisibleChild } from './visible-children.js';

export class SearchHit implements Hit {
  readonly id: Buffer;
  readonly row: Buffer;
  readonly dn: Buffer;
  readonly sight: Sight | undefined;
  readonly #context: SearchContext;
  readonly #params: SearchParams;

  constructor(
    context: SearchContext,
    params: SearchParams,
    id: Buffer,
    row: Buffer,
    dn: Buffer,
    sight: Sight | undefined,
  ) {
    this.#context = context;
    this.#params = params;
    this.id = id;
    this.row = row;
    this.dn = dn;
    this.sight = sight;
  }

  hasSubordinates(): Maybe<boolean> {
    return hasVisibleChild(this.#context, this.#context.store, this.#params.viewer, this);
  }

  numSubordinates(): Maybe<number> {
    return countVisibleChildren(this.#context, this.#context.store, this.#params.viewer, this);
  }

  memberOf(): Maybe<Buffer[]> {
    const { schema, membershipsOf } = this.#context;
    const { viewer, directGroupsOnly } = this.#params;
    const member = { id: Buffer.from(this.id), dn: schema.parseDnBytes(this.dn) };
    return chain(membershipsOf(member, viewer, 'read', directGroupsOnly), (groups) =>
      Array.from(groups.values(), ({ dn }) => dn),
    );
  }

  async withMembers(limit: number): Promise<MembersRow> {
    const { schema, rowWithMembers } = this.#context;
    const { row, sight } = this;
    const { viewer, manageDsaIT } = this.#params;
    const mayRead = !sight || sight.all('read') || sight.allows('read', schema.requireDescription('member'));
    if (manageDsaIT || !mayRead) return { row, hasMore: false };
    return rowWithMembers(row, viewer, this.#params, limit);
  }
}
