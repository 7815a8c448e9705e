import type { Partition } from '../../partition/index.js';
import { indexCommand } from '../../partition/read/plan/advice.js';
import { SUBSCHEMA_DN } from '../entry/computed.js';
import type { VirtualAttributes } from './virtual-attributes.js';

/** Attributes of cn=Index Proposals,cn=Monitor: a value of `description` for each index that searches lacked. */
export async function indexProposalsAttributes(partition: Partition): Promise<VirtualAttributes> {
  return [
    ['objectClass', ['top', 'monitor', 'monitoredObject', 'extensibleObject']],
    ['cn', ['Index Proposals']],
    ['description', await proposalLines(partition)],
    ['entryDN', ['cn=Index Proposals,cn=Monitor']],
    ['subschemaSubentry', [SUBSCHEMA_DN]],
    ['structuralObjectClass', ['monitoredObject']],
    ['hasSubordinates', ['FALSE']],
  ];
}

/** Returns a line for each index that searches lacked, the greatest gain first. */
export async function proposalLines(partition: Partition): Promise<string[]> {
  return (await partition.indexProposals()).map((proposal) => {
    const { searches, rowsInVain, rows, bytes, lastSeen } = proposal;
    const gain = `${searches} searches, ${rowsInVain} rows in vain`;
    const day = new Date(lastSeen).toISOString().slice(0, 'YYYY-MM-DD'.length);
    return `${indexCommand(proposal)}: ${gain}, last ${day}; cost: ${rows} rows, ${Math.ceil(bytes / 1024)} KiB`;
  });
}
