/** HBase tables for the store's: how they are described, made, verified, listed and dropped. */
export {
  describeInternal,
  describeTable,
  type InternalFamily,
  type InternalTable,
  internalHandle,
  LOCK_FAMILY,
  type TableDescriptor,
  tableHandle,
} from './descriptor.js';
export { CATALOG, TableRegistry, UNKNOWN_SERVERS } from './registry.js';
export { createCommand } from './shell.js';
