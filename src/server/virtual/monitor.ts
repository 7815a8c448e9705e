import { SUBSCHEMA_DN } from '../entry/computed.js';
import type { Statistics } from '../statistics.js';
import { VENDOR, VERSION } from '../version.js';
import { generalizedTime } from './subschema.js';
import type { VirtualAttributes } from './virtual-entries.js';

/** How the server is doing. One value of `description` a figure, `name: number`, so that any client shows them unasked. */
export function monitorAttributes(statistics: Statistics): VirtualAttributes {
  const { operations } = statistics;
  const figures = [
    `uptimeSeconds: ${statistics.uptimeSeconds}`,
    `connectionsCurrent: ${statistics.connectionsCurrent}`,
    `connectionsTotal: ${statistics.connectionsTotal}`,
    `connectionsRefused: ${statistics.connectionsRefused}`,
    `entriesSent: ${statistics.entriesSent}`,
    `memoryBytes: ${process.memoryUsage.rss()}`,
    ...Object.entries(operations).map(([name, count]) => `operations.${name}: ${count}`),
  ];
  const startedAt = generalizedTime(new Date(statistics.startedAt));
  return [
    ['objectClass', ['top', 'monitor', 'monitorServer', 'extensibleObject']],
    ['cn', ['Monitor']],
    ['description', [`version: ${VERSION}`, ...figures]],
    ['monitoredInfo', [`${VENDOR} ${VERSION}`]],
    ['monitorTimestamp', [startedAt]],
    ['createTimestamp', [startedAt]],
    ['entryDN', ['cn=Monitor']],
    ['subschemaSubentry', [SUBSCHEMA_DN]],
    ['structuralObjectClass', ['monitorServer']],
    ['hasSubordinates', ['FALSE']],
  ];
}
