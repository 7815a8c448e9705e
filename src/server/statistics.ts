import type { Request } from '../protocol/messages.js';

/** What `cn=Monitor` tells. Plain counters: the hot path adds one. */
export class Statistics {
  readonly startedAt = Date.now();
  connectionsCurrent = 0;
  connectionsTotal = 0;
  connectionsRefused = 0;
  entriesSent = 0;
  readonly operations: Record<Request['op'], number> = {
    bind: 0,
    unbind: 0,
    search: 0,
    compare: 0,
    add: 0,
    modify: 0,
    delete: 0,
    modifyDN: 0,
    abandon: 0,
    extended: 0,
  };

  get uptimeSeconds(): number {
    return Math.floor((Date.now() - this.startedAt) / 1000);
  }
}
