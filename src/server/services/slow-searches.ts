import type { Logger } from 'pino';
import { BoundedMap } from '../../cache/bounded-map.js';
import type { Filter, Scope } from '../../ldap/ldap-types.js';
import type { SearchOutcome } from '../../partition/read/search-params.js';
import { printable } from '../words/printable.js';

const MAX_SHAPES = 1000;
const AGAIN_AFTER = 10 * 60 * 1000;

/** A search, and who asked. */
export interface Asked {
  readonly base: string;
  readonly scope: Scope;
  readonly filter: Filter;
  /** DN; '' when anonymous. */
  readonly boundAs: string;
  /** Number of the connection. */
  readonly connection: number;
}

/**
 * Tells in the log, once in a while for each kind of filter, which index a search lacked. Values of filters are never
 * logged.
 */
export class SlowSearches {
  /** Rows looked at in vain before a search counts as slow; 0: none is. */
  readonly #rows: number;
  readonly #log: Logger;
  readonly #told = new BoundedMap<string, number>(MAX_SHAPES);

  constructor(rows: number, log: Logger) {
    this.#rows = rows;
    this.#log = log;
  }

  consider({ filter, scope, base, boundAs, connection }: Asked, outcome: SearchOutcome): void {
    const { entries, looked, plan } = outcome;
    if (this.#rows === 0 || looked - entries < this.#rows) return;
    const shape = printable(shapeOf(filter));
    const now = performance.now();
    if (now - (this.#told.get(shape) ?? Number.NEGATIVE_INFINITY) < AGAIN_AFTER) return;
    this.#told.set(shape, now);
    const advice = plan === 'index' ? undefined : outcome.advice();
    this.#log.warn(
      { base: printable(base), scope, filter: shape, boundAs: printable(boundAs), connection, plan, looked, entries },
      `slow search: looked at ${looked} rows for ${entries} entries${advice ? `; ${advice}` : ''}`,
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
