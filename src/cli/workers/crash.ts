import type { Logger } from 'pino';
import { isHBaseUrl } from '../../store/hbase/settings.js';
import { holdWrites } from '../../store/lmdb/index.js';
import type { Settings } from '../options.js';

/** As LMDB ends a process that reads damaged pages. SIGABRT is also the end of one that has no memory left. */
const CRASH = /\bSIG(?:SEGV|BUS)\b/;

/** Holds writes where the reason for which a worker ended may be damage. */
export function holdAfterCrash({ store, config }: Settings, worker: number, reason: string, log: Logger): void {
  if (!CRASH.test(reason) || !config.readOnlyWhenDamaged || isHBaseUrl(store)) return;
  holdWrites(store, `a server process ${reason}`);
  log.error(
    { worker, reason },
    'a worker crashed as damaged data makes it crash; nothing is written until "rowan check" finds no breach',
  );
}
