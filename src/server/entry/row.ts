import { MASTER } from '../../partition/index.js';

/** What of the packed master row the server's own walks know (docs/formats/packed-row.md, docs/formats/tables.md). */
export { CELL_HEADER, INDEX_BYTES, valueLength } from '../../partition/index.js';
export const TREE_INFO = MASTER.treeInfo;
export const UP_ATTRIBUTES = MASTER.upAttributes;
