export { Partition } from './partition.js';
export { initDirectory } from './shared.js';
export { largeQualifiers, MASTER } from './tables.js';
export type * from './types.js';
export { parseUuid, uuidText } from './uuid.js';
