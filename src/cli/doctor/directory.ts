import { indexWarnings, readMapping } from '../../dropfolder/csv-mapping.js';
import { readJob } from '../../jobs/job-rows.js';
import { latestCsn } from '../../partition/feed/history.js';
import { readSource } from '../../partition/index.js';
import { changeRecord } from '../../partition/model/change-record.js';
import { csnMicros } from '../../partition/model/csn.js';
import { CHANGES_TABLE, DELETED_TABLE, splitKeys, UUID_BYTES } from '../../partition/model/tables.js';
import { describeLoss, missingTables } from '../../partition/tree/missing-tables.js';
import type { Store, TableSpec } from '../../store/contract.js';
import { isHBaseUrl } from '../../store/hbase/settings.js';
import { WriteHold } from '../../store/lmdb/write/hold.js';
import { batchesOf } from '../../store/maybe.js';
import { EMPTY } from '../../store/row.js';
import { newestBackup } from '../backup/manifest.js';
import { formatNumber, pluralize } from '../exit.js';
import { describeSecondPassword, type OpenDirectory, schemaDifference } from '../open-directory.js';
import type { Settings } from '../options.js';
import { type Finding, fault, ok, warning } from './finding.js';

/** Difference of clocks that does no harm, in milliseconds. */
const CLOCK_SLACK_MS = 1000;
const DAY_MS = 86_400_000;

/** Number of places in a table that are read, so that each region of HBase is asked. */
const PLACES = 64;

/** Checks that each table answers in all places, and that writes are not held because of damage. */
export async function checkStore({ partition: { store }, address }: OpenDirectory): Promise<Finding[]> {
  if (!isHBaseUrl(address)) new WriteHold(address).check();
  const missing = await missingTables(store);
  if (missing.length > 0) return missing.map(({ table, message }) => fault(message, describeLoss(table)));
  const tables = await store.tables();
  for (const spec of tables) {
    const keys = [EMPTY, ...splitKeys(spec, PLACES)].map((key) => Buffer.concat([key, Buffer.alloc(UUID_BYTES + 1)]));
    await store.getMany(spec.name, keys);
  }
  return [ok(`${pluralize(tables.length, 'table')} at ${address}`)];
}

/** Checks that the schema of the settings, if they name one, is that of the directory. */
export async function checkSchema({ partition }: OpenDirectory, { config }: Settings): Promise<Finding[]> {
  const source = await readSource(partition.store);
  const difference = source && schemaDifference(source, config.schema);
  if (difference === undefined) return [ok('the settings agree with the schema of the directory')];
  return [fault(difference, 'remove schema.folders and schema.nis, or run "rowan schema set" and restart the servers')];
}

/** Checks that the administrator has one password. */
export async function checkAdministrator(directory: OpenDirectory): Promise<Finding[]> {
  const secondPassword = await describeSecondPassword(directory);
  if (!secondPassword) return [ok('there is one password')];
  return [warning(secondPassword, 'remove userPassword from the entry if one is enough')];
}

/** Checks that there is a job that makes backups, and a recent backup. */
export async function checkBackup({ partition }: OpenDirectory, { config }: Settings): Promise<Finding[]> {
  const { folder, days } = config.backup;
  if (folder === undefined)
    return [warning('no job makes backups', 'set backup.folder, or run "rowan backup" from cron')];
  const { outcome, result } = (await readJob(partition.store, 'backup')).state;
  if (outcome === 'failed') return [warning(`the last one failed: ${result}`, 'see "rowan jobs list"')];
  const newest = newestBackup(folder);
  if (!newest) return [warning(`${folder} has no backup`, 'start a server, or run "rowan jobs run backup"')];
  const text = `the newest backup is ${newest.folder}, of ${newest.time}`;
  const isOld = Date.parse(newest.time) < Date.now() - days * DAY_MS;
  return [isOld ? warning(text, 'see "rowan jobs list"') : ok(text)];
}

/** Says how much history is kept, and for how long. */
export async function checkHistory({ partition }: OpenDirectory, { config }: Settings): Promise<Finding[]> {
  const { changesDays, deletedDays } = config.history;
  const { store } = partition;
  const timeOf = (row: Buffer): bigint => changeRecord(row).time.readBigUInt64BE();
  const [first, last] = [await sample(store, CHANGES_TABLE, false), await sample(store, CHANGES_TABLE, true)];
  const count = first.keys[0] ? Number(last.keys[0]!.readBigUInt64BE() - first.keys[0].readBigUInt64BE()) + 1 : 0;
  const spanMs = count > 0 ? Number(timeOf(last.rows[0]!) - timeOf(first.rows[0]!)) : 0;
  const deleted = await sample(store, DELETED_TABLE, false);
  const deletedCount = await store.count(DELETED_TABLE.name, {}, MAX_COUNT);
  return [
    ok(
      `change records are kept for ${pluralize(Math.max(changesDays, deletedDays), 'day')}${perDay(count, last.rows, spanMs)}`,
    ),
    ok(
      `deleted entries are kept for ${pluralize(deletedDays, 'day')}${perDay(deletedCount, deleted.rows, deletedDays * DAY_MS)}`,
    ),
  ];
}

const MAX_COUNT = 1_000_000;
const SAMPLE_ROWS = 100;

/** Returns some rows from the beginning of a table, or from its end, backwards. */
async function sample(store: Store, { name }: TableSpec, reverse: boolean) {
  for await (const { keys, rows } of batchesOf(store.scan(name, {}, { reverse, limit: SAMPLE_ROWS })))
    return { keys, rows: rows.map((row) => row!) };
  return { keys: [], rows: [] };
}

/** Says how many rows and bytes a day there are, from some of the rows and the time in which they came. */
function perDay(count: number, rows: readonly Buffer[], spanMs: number): string {
  if (count === 0) return '; there is none';
  const days = Math.max(spanMs / DAY_MS, 1);
  const rowBytes = rows.reduce((sum, { length }) => sum + length, 0) / rows.length;
  const kib = Math.ceil(((count / days) * rowBytes) / 1024);
  return `: about ${formatNumber(Math.ceil(count / days))} a day, ${formatNumber(kib)} KiB`;
}

/** Checks that the clock is not behind the newest change, of this front end or of another. */
export async function checkClock({ partition }: OpenDirectory): Promise<Finding[]> {
  const newestCsn = await latestCsn(partition.store);
  if (newestCsn === undefined) return [ok('there is no change to compare it with')];
  const changedMs = csnMicros(newestCsn) / 1000;
  const changed = new Date(changedMs).toISOString();
  if (changedMs <= Date.now() + CLOCK_SLACK_MS) return [ok(`it is ahead of the newest change (${changed})`)];
  const text = `it says ${new Date().toISOString()}, and the newest change is of ${changed}`;
  return [fault(text, 'set the clocks of all front ends by a time server ("timedatectl" shows it)')];
}

/** Checks that all indexes are complete, and that neither searches nor the mapping of the drop folder lack one. */
export async function checkIndexes({ partition }: OpenDirectory, settings?: Settings): Promise<Finding[]> {
  const findings = partition.indexes().flatMap(({ attribute, state }) => {
    if (state === 'ready') return [];
    if (state === 'lost') return [fault(`the index on ${attribute} is lost, and out of use`, 'run "rowan repair"')];
    return [
      warning(`the index on ${attribute} is not complete`, `start a server, or run "rowan index add ${attribute}"`),
    ];
  });
  const { length } = await partition.indexProposals();
  if (length > 0)
    findings.push(warning(`searches lack ${pluralize(length, 'index', 'indexes')}`, 'see "rowan index proposals"'));
  const mapping = settings?.config.dropfolder.mapping;
  if (mapping !== undefined)
    for (const text of indexWarnings(readMapping(mapping, partition.schema), partition)) {
      const [problem, remedy] = text.split('; run: ') as [string, string];
      findings.push(warning(`dropfolder.mapping: ${problem}`, remedy));
    }
  return findings.length > 0 ? findings : [ok('all are complete')];
}
