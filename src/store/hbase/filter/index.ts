/** Store filters as HBase's own, which the region servers evaluate. */

export { columnPrefixFilter } from './encode.js';
export { type Families, type ServerFilter, translate } from './translate.js';
