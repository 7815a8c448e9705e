import type { Logger } from 'pino';
import type { Partition } from '../../partition/index.js';
import { describeLoss } from '../../partition/tree/missing-tables.js';

/**
 * Logs when the directory's store stops answering and when it answers again, and likewise when its disk is full and
 * when it has room again.
 */
export function logOutages({ outage, store }: Partition, log: Logger): void {
  outage.listener = {
    onOutage: (message) => log.warn(`the store does not answer: ${message}`),
    onMissing: (table) => log.error(`table ${table} is missing: it was dropped in HBase; ${describeLoss(table)}`),
    onRecovery: (ms) => log.info(`the store answers again, ${(ms / 1000).toFixed(1)} s after that was told`),
  };
  store.onRoomChange = (isFull, folder, freeBytes) => {
    if (isFull) log.error({ folder, freeBytes }, 'the disk is full: writes fail until space is freed');
    else log.info({ folder, freeBytes }, 'the disk has room again: a write has succeeded');
  };
}
