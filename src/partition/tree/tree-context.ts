import type { Schema } from '../../schema/schema.js';
import type { DescriptionTable } from '../model/descriptions.js';
import type { EntryReader } from '../model/entry-reader.js';
import type { Outage } from '../model/outage.js';
import type { EntryIds } from './entry-ids.js';
import type { NodeCache } from './nodes.js';
import type { SharedState } from './shared-state.js';

/** The state of an open partition that every operation uses. */
export interface TreeContext {
  readonly schema: Schema;
  readonly outage: Outage;
  readonly shared: SharedState;
  readonly nodes: NodeCache;
  readonly ids: EntryIds;
  readonly descriptions: DescriptionTable;
  /** Shared by all operations. Its contents are valid only within one synchronous call. */
  readonly reader: EntryReader;
}
