import { FilterError, parseFilter } from '../ldap/filter-text.js';
import { LdapError } from '../ldap/ldap-error.js';
import type { Filter } from '../ldap/ldap-types.js';
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
  for (const attribute of attributesOf(filter)) schema.requireDescription(attribute);
}

/** What is wrong with attributes of the filter, each once: the server takes terms on them for Undefined. */
export function unknownAttributes(filter: Filter, schema: Schema): string[] {
  const faults = new Set<string>();
  for (const attribute of attributesOf(filter)) {
    try {
      schema.requireDescription(attribute);
    } catch (error) {
      if (!(error instanceof LdapError)) throw error;
      faults.add(error.message);
    }
  }
  return [...faults];
}

function* attributesOf(filter: Filter): Generator<string> {
  switch (filter.type) {
    case 'and':
    case 'or':
      for (const part of filter.filters) yield* attributesOf(part);
      break;
    case 'not':
      yield* attributesOf(filter.filter);
      break;
    default:
      if (filter.attribute !== undefined) yield filter.attribute;
  }
}
