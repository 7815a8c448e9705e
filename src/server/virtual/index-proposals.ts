import type { Partition } from '../../partition/index.js';
import { indexCommand } from '../../partition/read/plan/advice.js';

/** Returns a line for each index that searches lacked, the greatest gain first, for cn=Index Proposals,cn=Monitor. */
export async function proposalLines(partition: Partition): Promise<string[]> {
  return (await partition.indexProposals()).map((proposal) => {
    const { searches, rowsInVain, rows, bytes, lastSeen } = proposal;
    const gain = `${searches} searches, ${rowsInVain} rows in vain`;
    const day = new Date(lastSeen).toISOString().slice(0, 'YYYY-MM-DD'.length);
    return `${indexCommand(proposal)}: ${gain}, last ${day}; cost: ${rows} rows, ${Math.ceil(bytes / 1024)} KiB`;
  });
}
