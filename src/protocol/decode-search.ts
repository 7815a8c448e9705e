import { decodeFilter } from './decode-filter.js';
import type { SearchRequest } from './ldap-messages.js';
import type { DecodeLimits } from './limits.js';
import type { Reader } from './reader.js';
import { derefs, opTags, SEQUENCE, scopes } from './tags.js';

/** Decodes a SearchRequest (RFC 4511 §4.5.1). */
export function decodeSearch(reader: Reader, limits: DecodeLimits): SearchRequest {
  const outerEnd = reader.enter(opTags.search, 'search request');
  const base = reader.text('baseObject');
  const scope = scopes[reader.enumerated('scope', scopes.length - 1)]!;
  const deref = derefs[reader.enumerated('derefAliases', derefs.length - 1)]!;
  const sizeLimit = reader.integer('sizeLimit');
  const timeLimit = reader.integer('timeLimit');
  const typesOnly = reader.boolean('typesOnly');
  const filter = decodeFilter(reader, limits);
  const attributes = decodeSelection(reader, limits.maxSelectedAttributes);
  reader.leaveSequence(outerEnd, 'search request');
  return { op: 'search', base, scope, deref, sizeLimit, timeLimit, typesOnly, filter, attributes };
}

const NO_ATTRIBUTES: readonly string[] = [];

function decodeSelection(reader: Reader, maxSelected: number): readonly string[] {
  const outerEnd = reader.enter(SEQUENCE, 'attribute selection');
  if (reader.at === reader.end) {
    reader.end = outerEnd;
    return NO_ATTRIBUTES;
  }
  const attributes: string[] = [];
  while (reader.at < reader.end) {
    if (attributes.length === maxSelected) throw reader.refusal(`search selects over ${maxSelected} attributes`);
    attributes.push(reader.text('selected attribute'));
  }
  reader.leave(outerEnd, 'attribute selection');
  return attributes;
}
