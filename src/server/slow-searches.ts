import type { Logger } from 'pino';
import type { Filter } from '../ldap/types.js';
import type { Partition } from '../partition/index.js';
import type { SearchOutcome, SearchParams } from '../partition/types.js';
import { printable } from './text.js';

const MAX_SHAPES = 1000;
const AGAIN_AFTER = 10 * 60 * 1000;

/** Tells in the log, once in a while for each kind of filter, which index a search lacked. Values of filters are never logged. */
export class SlowSearches {
  readonly #partition: Partition;
  /** Rows looked at in vain before a search counts as slow; 0: none is. */
  readonly #rows: number;
  readonly #log: Logger;
  readonly #told = new Map<string, number>();

  constructor(partition: Partition, rows: number, log: Logger) {
    this.#rows = rows;
    this.#partition = partition;
    this.#log = log;
  }

  consider(params: SearchParams, { entries, looked }: SearchOutcome): void {
    if (this.#rows === 0 || looked - entries < this.#rows) return;
    const shape = printable(shapeOf(params.filter));
    const now = Date.now();
    if (now - (this.#told.get(shape) ?? Number.NEGATIVE_INFINITY) < AGAIN_AFTER) return;
    if (this.#told.size >= MAX_SHAPES) this.#told.clear();
    this.#told.set(shape, now);
    this.#tell(params, shape, entries, looked).catch((error: Error) =>
      this.#log.debug({ error: error.message }, 'explain failed'),
    );
  }

  async #tell(params: SearchParams, shape: string, entries: number, looked: number): Promise<void> {
    const { plan, advice } = await this.#partition.explain(params);
    const remedy = advice ? `; ${advice}` : '';
    this.#log.warn(
      { filter: shape, plan, looked, entries },
      `explain: scanned ${looked} rows for ${entries} entries${remedy}`,
    );
  }
}

const SIGNS = { equal: '=', approx: '~=', greaterOrEqual: '>=', lessOrEqual: '<=' } as const;

/** The filter with `?` for its values. */
export function shapeOf(filter: Filter): string {
  switch (filter.type) {
    case 'and':
      return `(&${filter.filters.map(shapeOf).join('')})`;
    case 'or':
      return `(|${filter.filters.map(shapeOf).join('')})`;
    case 'not':
      return `(!${shapeOf(filter.filter)})`;
    case 'present':
      return `(${filter.attribute}=*)`;
    case 'substring':
      return `(${filter.attribute}=*?*)`;
    case 'extensible':
      return `(${filter.attribute ?? ''}${filter.dnAttributes ? ':dn' : ''}${filter.rule ? `:${filter.rule}` : ''}:=?)`;
    default:
      return `(${filter.attribute}${SIGNS[filter.type]}?)`;
  }
}
