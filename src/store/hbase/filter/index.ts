/** Translates store filters to HBase filters, which the region servers evaluate. */

export { columnPrefixFilter } from './encode.js';
export { type Families, type ServerFilter, translate } from './translate.js';
