/** The HBase tables of a store: describing, creating, verifying, listing and dropping. */

export { createCommand } from './admin.js';
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
export { CATALOG, DEFAULT_REGIONS, TableRegistry } from './registry.js';
