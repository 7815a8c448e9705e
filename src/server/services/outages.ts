import type { Logger } from 'pino';
import type { Partition } from '../../partition/index.js';

/** Logs when the directory's store stops answering and when it answers again. */
export function logOutages({ outage }: Partition, log: Logger): void {
  outage.listener = {
    onOutage: (message) => log.warn(`the store does not answer: ${message}`),
    onRecovery: (ms) => log.info(`the store answers again, ${(ms / 1000).toFixed(1)} s after that was told`),
  };
}
