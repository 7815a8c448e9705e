export type { Maybe } from '../store/contract.js';
export { chain, isPromise } from '../store/maybe.js';
export { CELL_HEADER } from '../store/row.js';
export { INDEX_BYTES } from './descriptions.js';
export { Partition } from './partition.js';
export { initDirectory, parseSuffixes } from './shared.js';
export { largeQualifiers, MASTER } from './tables.js';
export type * from './types.js';
export { parseUuid, uuidText } from './uuid.js';
