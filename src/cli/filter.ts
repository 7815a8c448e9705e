import { FilterError, parseFilter } from '../ldap/filter-text.js';
import type { Filter } from '../ldap/types.js';
import { UsageError } from './exit.js';

/** A filter from the command line. */
export function readFilter(text: string): Filter {
  try {
    return parseFilter(text);
  } catch (error) {
    if (error instanceof FilterError) throw new UsageError(`${error.message}, in ${JSON.stringify(text)}`);
    throw error;
  }
}
