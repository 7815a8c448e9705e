import { isHBaseUrl } from '../store/hbase/settings.js';
import { findDamagedPages } from '../store/lmdb/index.js';
import { CliError } from './exit.js';
import type { Settings } from './options.js';
import { Progress } from './progress.js';

export const RESTORE_REMEDY =
  'restore a backup, or run "rowan export --even-if-damaged", which may miss entries, crash or never end, and import what it gives into a new folder';

/** Returns the damage in the pages of the data file, one line each: LMDB cannot be trusted to read such a file. */
export async function findPageDamage({ store }: Settings, command: string): Promise<string[]> {
  if (isHBaseUrl(store)) return [];
  let progress: Progress | undefined;
  try {
    return await findDamagedPages(store, (rows, total) => {
      progress ??= new Progress(command, 'rows');
      progress.update(rows, rows / total);
    });
  } finally {
    progress?.finish();
  }
}

/** Throws a `CliError` that lists the damage, if any. */
export async function requireUndamagedPages(settings: Settings, command: string): Promise<void> {
  const findings = await findPageDamage(settings, command);
  if (findings.length === 0) return;
  throw new CliError(
    [...findings, `pages of ${settings.store} are damaged, and it is not read any further: ${RESTORE_REMEDY}`].join(
      '\n',
    ),
  );
}
