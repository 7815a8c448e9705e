import { FilterError, parseFilter } from '../ldap/filter-text.js';
import type { Filter } from '../ldap/types.js';
import type { Schema } from '../schema/index.js';
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

/** An attribute that the schema does not know would silently match nothing: from the command line it is an error. */
export function requireAttributes(filter: Filter, schema: Schema): void {
  switch (filter.type) {
    case 'and':
    case 'or':
      for (const part of filter.filters) requireAttributes(part, schema);
      break;
    case 'not':
      requireAttributes(filter.filter, schema);
      break;
    default:
      if (filter.attribute !== undefined) schema.requireDescription(filter.attribute);
  }
}
