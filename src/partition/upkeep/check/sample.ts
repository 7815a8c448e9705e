import { randomBytes } from 'node:crypto';
import { keysOf } from '../../../store/batches.js';
import type { KeyRange } from '../../../store/contract.js';
import { keyAfter } from '../../../store/tables.js';
import type { Breach } from '../../model/directory-types.js';
import { isComplete } from '../../model/index-set.js';
import type { Piecework } from '../../model/piecework.js';
import { MASTER_TABLE, UUID_BYTES } from '../../model/tables.js';
import { uuidText } from '../../model/uuid.js';
import type { WriteContext } from '../../write/context.js';
import { surveying } from './check.js';
import { checkEntriesIn, type EntryRow } from './entries.js';
import type { Survey } from './survey.js';

/** Entries checked at one place of the directory. */
const RUN = 50;
/** Bytes by which entryUUIDs are told apart when a place is drawn. */
const DRAWN_BYTES = 8;

export interface Sampled {
  readonly entries: number;
  readonly breaches: readonly Breach[];
}

/**
 * Checks some entries, drawn at random, each with its tree row, its large values and its index rows, as `check` does
 * with all of them. Counters are not checked. They are drawn in runs of 50; of overlapping runs
 * each entry counts once.
 */
export async function sampleCheck(context: WriteContext, entries: number, piecework?: Piecework): Promise<Sampled> {
  const places = await drawPlaces(context, entries);
  const found = await checkPlaces(context, places, piecework);
  if (found.breaches.length === 0 || context.store.supports.snapshot) return found;
  // What a plan that is half done shows as a breach is none when the plan is done.
  await context.store.quiet?.();
  const again = await checkPlaces(context, places, piecework);
  const before = new Set(found.breaches.map(textOf));
  return { entries: again.entries, breaches: again.breaches.filter((breach) => before.has(textOf(breach))) };
}

const textOf = ({ invariant, where, message }: Breach): string => `${invariant} ${where}: ${message}`;

/** Where entries are checked: keys from which on, and how many at each. */
interface Places {
  readonly keys: readonly Buffer[];
  readonly run: number;
}

/** For `entries` entries; of a directory that has no more, all are checked. */
async function drawPlaces({ store }: WriteContext, entries: number): Promise<Places> {
  const there = await store.count(MASTER_TABLE.name, {}, entries);
  if (there < entries) return { keys: there > 0 ? [Buffer.alloc(UUID_BYTES)] : [], run: there };
  const run = Math.min(RUN, entries);
  const end = (reverse: boolean) => keysOf(store.scan(MASTER_TABLE.name, {}, { reverse, limit: 1, keysOnly: true }));
  const [first] = await end(false);
  const [last] = await end(true);
  if (!first || !last) return { keys: [], run };
  const from = first.readBigUInt64BE(0);
  const width = last.readBigUInt64BE(0) - from + 1n;
  const keys = Array.from({ length: Math.ceil(entries / run) }, () => {
    const key = Buffer.alloc(UUID_BYTES);
    key.writeBigUInt64BE(from + (randomBytes(DRAWN_BYTES).readBigUInt64BE(0) % width));
    return key;
  });
  return { keys, run };
}

async function checkPlaces(
  context: WriteContext,
  { keys, run }: Places,
  piecework: Piecework | undefined,
): Promise<Sampled> {
  const breaches: Breach[] = [];
  /** entryUUIDs, Latin-1: places may overlap. */
  const seen = new Set<string>();
  await surveying(
    context,
    ({ breach }) => void breaches.push(breach),
    () => piecework?.proceed(),
    async (pass) => {
      for (const place of keys) {
        await piecework?.proceed();
        const later = await checkRun(pass, { from: place }, run, seen);
        // Behind the last entry it goes on with the first, so that each is as likely to be drawn.
        if (later < run) await checkRun(pass, { to: place }, run - later, seen);
      }
    },
  );
  return { entries: seen.size, breaches };
}

/** Checks the first `limit` entries of a range at most; resolves with their number. */
async function checkRun(survey: Survey, range: KeyRange, limit: number, seen: Set<string>): Promise<number> {
  const keys = await keysOf(survey.reader.scan(MASTER_TABLE.name, range, { limit, keysOnly: true }));
  if (keys.length === 0) return 0;
  for (const key of keys) seen.add(key.toString('latin1'));
  const checked = { from: keys[0]!, to: keyAfter(keys.at(-1)!) };
  await checkEntriesIn(survey, checked, (entries) => checkPostings(survey, entries));
  return keys.length;
}

/** Each row that an entry implies in an index that is complete is there. */
async function checkPostings(survey: Survey, entries: readonly EntryRow[]): Promise<void> {
  for (const { id, implied } of entries) {
    const rows = (implied?.rows ?? []).filter(({ index }) => isComplete(index));
    const found = await Promise.all(
      rows.map(({ index, prefix }) => {
        const key = Buffer.concat([prefix, id]);
        return survey.reader.count(index.table, { from: key, to: keyAfter(key) }, 1);
      }),
    );
    for (const [i, { index }] of rows.entries())
      if (found[i] === 0)
        await survey.report('index', uuidText(id), `an index row of '${index.type.name}' is missing; repair adds it`);
  }
}
