import type { Logger } from 'pino';
import type { Partition } from '../partition/index.js';
import type { Schema } from '../schema/schema.js';
import type { Dn } from '../schema/types.js';
import { Credentials } from './credentials.js';
import { EntryEncoder } from './entry/encode-entry.js';
import { Selections } from './entry/selection.js';
import type { LongWorker } from './long/long-worker.js';
import { PageCookies } from './paging.js';
import { Passwords } from './passwords.js';
import type { Config } from './settings/index.js';
import type { Siblings } from './siblings.js';
import { SlowSearches } from './slow-searches.js';
import { Statistics } from './statistics.js';
import { VirtualEntries } from './virtual/virtual-entries.js';

/** What the operations of a server share. */
export interface Services {
  readonly partition: Partition;
  readonly schema: Schema;
  /** The administrator's DN. */
  readonly admin: Dn;
  readonly config: Config;
  readonly log: Logger;
  readonly statistics: Statistics;
  /** The other processes of this server, where it has some. */
  readonly siblings: Siblings | undefined;
  /** Who does what would hold the event loop for long; without it that is done here. */
  readonly long: LongWorker | undefined;
  readonly selections: Selections;
  readonly encoder: EntryEncoder;
  readonly credentials: Credentials;
  readonly passwords: Passwords;
  readonly pages: PageCookies;
  readonly slowSearches: SlowSearches;
  readonly virtual: VirtualEntries;
}

/** What stands beside the process that serves. */
export interface Helpers {
  readonly siblings?: Siblings | undefined;
  readonly long?: LongWorker | undefined;
}

export function createServices(
  partition: Partition,
  config: Config,
  log: Logger,
  { siblings, long }: Helpers = {},
): Services {
  const { schema } = partition;
  const statistics = new Statistics(siblings?.worker);
  const encoder = new EntryEncoder(partition.descriptions, partition);
  return {
    partition,
    schema,
    admin: schema.parseDn(partition.settings.adminDn),
    config,
    log,
    statistics,
    siblings,
    long,
    selections: new Selections(schema),
    encoder,
    credentials: new Credentials(encoder.table),
    passwords: new Passwords(partition, config, log),
    pages: new PageCookies(partition, config.limits.pageCookieSeconds),
    slowSearches: new SlowSearches(partition, config.log.slowSearchRows, log),
    virtual: new VirtualEntries(partition, config, statistics, siblings),
  };
}
