import type { PartialAttribute } from '../../ldap/types.js';
import { largeQualifiers, MASTER, type Partition } from '../../partition/index.js';
import type { Hit } from '../../partition/types.js';
import type { Schema } from '../../schema/index.js';
import { cellFamily, nextCell, qualifierLength, qualifierStart, valueStart } from '../../store/row.js';

/** Bytes of the value index at the end of a qualifier of `upAttributes`. */
const INDEX_BYTES = 4;

/** Which attributes an export writes. */
export class Selection {
  readonly #schema: Schema;
  readonly #operational: boolean;
  readonly #known = new Map<string, boolean>();

  constructor(schema: Schema, operational: boolean) {
    this.#schema = schema;
    this.#operational = operational;
  }

  includes(description: string): boolean {
    if (this.#operational) return true;
    let wanted = this.#known.get(description);
    if (wanted === undefined) {
      wanted = this.#schema.describe(description)?.type.operational !== true;
      this.#known.set(description, wanted);
    }
    return wanted;
  }
}

/** All attributes of a search's hit that the selection includes, passwords too, in stored order. */
export async function entryAttributes(
  partition: Partition,
  hit: Hit,
  selection: Selection,
): Promise<PartialAttribute[]> {
  const { row } = hit;
  const large = largeQualifiers(row);
  const attributes: { type: string; values: Buffer[] }[] = [];
  let last: { type: string; values: Buffer[] } | undefined;
  for (let at = 0; at < row.length; ) {
    const next = nextCell(row, at);
    if (cellFamily(row, at) === MASTER.upAttributes) {
      const start = qualifierStart(at);
      const end = start + qualifierLength(row, at);
      const type = row.toString('utf8', start, end - INDEX_BYTES);
      if (last?.type !== type) {
        last = { type, values: [] };
        if (selection.includes(type)) attributes.push(last);
      }
      const apart = large?.has(row.toString('latin1', start, end)) === true;
      const value = apart
        ? await partition.largeValue(hit.id, row.subarray(start, end))
        : row.subarray(valueStart(row, at), next);
      last.values.push(value);
    }
    at = next;
  }
  return attributes;
}
