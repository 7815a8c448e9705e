import type { Maybe, Reader } from '../../../store/contract.js';
import { chain } from '../../../store/maybe.js';
import { childCount } from '../../tree/master-row.js';
import type { Hit } from '../sink.js';
import type { Sight } from '../viewer/viewer.js';

/** An entry that a search has found. */
export class Found implements Hit {
  readonly id: Buffer;
  readonly row: Buffer;
  readonly dn: Buffer;
  readonly sight: Sight | undefined;
  readonly #reader: Reader;

  constructor(reader: Reader, id: Buffer, row: Buffer, dn: Buffer, sight: Sight | undefined) {
    this.#reader = reader;
    this.id = id;
    this.row = row;
    this.dn = dn;
    this.sight = sight;
  }

  hasSubordinates(): Maybe<boolean> {
    return chain(childCount(this.#reader, this.row), (n) => n > 0);
  }

  numSubordinates(): Maybe<number> {
    return childCount(this.#reader, this.row);
  }
}
