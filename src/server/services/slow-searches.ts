import type { Logger } from 'pino';
import { BoundedMap } from '../../cache/bounded-map.js';
import type { Filter } from '../../ldap/ldap-types.js';
import type { SearchOutcome } from '../../partition/read/search-params.js';
import type { SearchRequest } from '../../protocol/ldap-messages.js';
import type { Config } from '../settings/index.js';
import { printable } from '../words/printable.js';
import type { Session } from '../words/session.js';

const MAX_SHAPES = 1000;
const REPEAT_AFTER_MS = 10 * 60 * 1000;

/**
 * Logs slow searches with the index that would have helped, at most once in `REPEAT_AFTER_MS` for each shape of filter.
 * Values of filters are never logged.
 */
export class SlowSearches {
  readonly #settings: Config['log'];
  readonly #log: Logger;
  readonly #loggedAtByShape = new BoundedMap<string, number>(MAX_SHAPES);

  /** `slowSearchRows`: number of examined rows without a match from which a search is slow; 0: no search is slow. */
  constructor(settings: Config['log'], log: Logger) {
    this.#settings = settings;
    this.#log = log;
  }

  logIfSlow(
    { filter, scope, base }: SearchRequest,
    { dn, connectionNumber: connection }: Session,
    outcome: SearchOutcome,
  ): void {
    const { entries, rowsExamined: looked, plan } = outcome;
    const { slowSearchRows } = this.#settings;
    if (slowSearchRows === 0 || looked - entries < slowSearchRows) return;
    const shape = printable(filterShape(filter));
    const now = performance.now();
    if (now - (this.#loggedAtByShape.get(shape) ?? Number.NEGATIVE_INFINITY) < REPEAT_AFTER_MS) return;
    this.#loggedAtByShape.set(shape, now);
    const advice = plan === 'index' ? undefined : outcome.advice();
    this.#log.warn(
      { base: printable(base), scope, filter: shape, boundAs: printable(dn), connection, plan, looked, entries },
      `slow search: looked at ${looked} rows for ${entries} ${entries === 1 ? 'entry' : 'entries'}${advice ? `; ${advice}` : ''}`,
    );
  }
}

const COMPARISON_SIGNS = { equal: '=', approx: '~=', greaterOrEqual: '>=', lessOrEqual: '<=' } as const;

/** Returns the filter with `?` in place of its values. */
export function filterShape(filter: Filter): string {
  switch (filter.type) {
    case 'and':
      return `(&${filter.filters.map(filterShape).join('')})`;
    case 'or':
      return `(|${filter.filters.map(filterShape).join('')})`;
    case 'not':
      return `(!${filterShape(filter.filter)})`;
    case 'present':
      return `(${filter.attribute}=*)`;
    case 'substring':
      return `(${filter.attribute}=*?*)`;
    case 'extensible':
      return `(${filter.attribute ?? ''}${filter.dnAttributes ? ':dn' : ''}${filter.rule ? `:${filter.rule}` : ''}:=?)`;
    default:
      return `(${filter.attribute}${COMPARISON_SIGNS[filter.type]}?)`;
  }
}
