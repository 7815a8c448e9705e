import { FilterError, parseFilter } from '../ldap/filter-text.js';
import { LdapError } from '../ldap/ldap-error.js';
import type { Filter } from '../ldap/ldap-types.js';
import type { Schema } from '../schema/index.js';
import { UsageError } from './exit.js';

export function parseFilterArgument(text: string): Filter {
  try {
    return parseFilter(text);
  } catch (error) {
    if (error instanceof FilterError) throw new UsageError(`${error.message}, in ${JSON.stringify(text)}`);
    throw error;
  }
}

/** Throws when the schema lacks an attribute of the filter, which would silently match nothing. */
export function requireAttributes(filter: Filter, schema: Schema): void {
  for (const attribute of filterAttributes(filter)) schema.requireDescription(attribute);
}

/** Returns a message for each attribute that the schema lacks. The server evaluates terms on them as Undefined. */
export function unknownAttributes(filter: Filter, schema: Schema): string[] {
  const messages = new Set<string>();
  for (const attribute of filterAttributes(filter)) {
    try {
      schema.requireDescription(attribute);
    } catch (error) {
      if (!(error instanceof LdapError)) throw error;
      messages.add(error.message);
    }
  }
  return [...messages];
}

function* filterAttributes(filter: Filter): Generator<string> {
  switch (filter.type) {
    case 'and':
    case 'or':
      for (const subfilter of filter.filters) yield* filterAttributes(subfilter);
      break;
    case 'not':
      yield* filterAttributes(filter.filter);
      break;
    default:
      if (filter.attribute !== undefined) yield filter.attribute;
  }
}
