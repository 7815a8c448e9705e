/** The engine over Apache HBase. */
export { INTERNAL_TABLES } from './journal/journal-tables.js';
export { HBaseStore, type HBaseStoreOptions, openHBaseStore } from './store.js';
