/**
 * What of the packed master row the server's own walks know (docs/formats/packed-row.md, docs/formats/tables.md):
 * each cell is family u8, qualifier length u16, value length u32, qualifier, value; an attribute's qualifier is its
 * description and a four-byte index.
 */
export const CELL_HEADER = 7;
export const INDEX_BYTES = 4;
export const TREE_INFO = 0;
export const UP_ATTRIBUTES = 1;
