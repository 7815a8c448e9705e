import type { Logger } from 'pino';
import { isHBaseUrl } from '../../store/hbase/settings.js';
import { holdWrites } from '../../store/lmdb/index.js';
import type { Settings } from '../options.js';

/** Signals that end a process with damaged LMDB pages. SIGABRT is not included: it also means out of memory. */
const CRASH_SIGNAL = /\bSIG(?:SEGV|BUS)\b/;

/** Stops all writes when a worker may have crashed because of damaged data. */
export function holdWritesAfterCrash({ store, config }: Settings, worker: number, reason: string, log: Logger): void {
  if (!CRASH_SIGNAL.test(reason) || !config.readOnlyWhenDamaged || isHBaseUrl(store)) return;
  holdWrites(store, `a server process ${reason}`);
  log.error(
    { worker, reason },
    'a worker crashed as damaged data makes it crash; nothing is written until "rowan check" finds no breach',
  );
}
