let eventCount = 0;

/** Orders the events of this process: reads from HBase, and the writes of counters that begin and end during them. */
export const logicalClock = { now: (): number => eventCount, tick: (): number => ++eventCount };
