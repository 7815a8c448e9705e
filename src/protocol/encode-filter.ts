import type { Filter } from '../ldap/ldap-types.js';
import { encodeOptional } from './encode.js';
import { contextTag, filterTags, OCTET_STRING, SEQUENCE } from './tags.js';
import type { Writer } from './writer.js';

/** Appends a filter (RFC 4511 §4.5.1). Recurses to the nesting depth of the filter. */
export function encodeFilter(writer: Writer, filter: Filter): void {
  if (filter.type === 'present') {
    writer.text(filterTags.present, filter.attribute);
    return;
  }
  const element = writer.begin(filterTags[filter.type]);
  switch (filter.type) {
    case 'and':
    case 'or':
      for (const subfilter of filter.filters) encodeFilter(writer, subfilter);
      break;
    case 'not':
      encodeFilter(writer, filter.filter);
      break;
    case 'substring':
      encodeSubstring(writer, filter);
      break;
    case 'extensible':
      encodeOptional(writer, contextTag(1), filter.rule);
      encodeOptional(writer, contextTag(2), filter.attribute);
      writer.octetString(contextTag(3), filter.value);
      if (filter.dnAttributes) writer.boolean(contextTag(4), true);
      break;
    default:
      writer.text(OCTET_STRING, filter.attribute);
      writer.octetString(OCTET_STRING, filter.value);
  }
  writer.end(element);
}

function encodeSubstring(writer: Writer, filter: Extract<Filter, { type: 'substring' }>): void {
  writer.text(OCTET_STRING, filter.attribute);
  const partsMark = writer.begin(SEQUENCE);
  encodeOptional(writer, contextTag(0), filter.initial);
  for (const substring of filter.any) writer.octetString(contextTag(1), substring);
  encodeOptional(writer, contextTag(2), filter.final);
  writer.end(partsMark);
}
