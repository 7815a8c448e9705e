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
import { runSurvey } from './check.js';
import { checkEntriesIn, type EntryRow } from './entries.js';
import type { Survey } from './survey.js';

/** Number of neighbouring entries that are checked together. */
const RUN = 50;
/** Number of random bytes of a drawn key. */
const DRAWN_BYTES = 8;

export interface Sampled {
  readonly entries: number;
  readonly breaches: readonly Breach[];
}

/**
 * Checks a random sample of entries: each entry with its tree row, large values and index rows, as `check` does.
 * Counters are not checked. The sample consists of runs of 50 entries. An entry in several runs counts once.
 */
export async function sampleCheck(context: WriteContext, entries: number, piecework?: Piecework): Promise<Sampled> {
  const places = await drawPlaces(context, entries);
  const found = await checkPlaces(context, places, piecework);
  if (found.breaches.length === 0 || context.store.supports.snapshot) return found;
  // A breach may come from a plan that is applied halfway, so check again when all plans are applied.
  await context.store.waitUntilQuiet?.();
  const again = await checkPlaces(context, places, piecework);
  const before = new Set(found.breaches.map(textOf));
  return { entries: again.entries, breaches: again.breaches.filter((breach) => before.has(textOf(breach))) };
}

const textOf = ({ invariant, where, message }: Breach): string => `${invariant} ${where}: ${message}`;

/** The runs of a sample: their first keys, and the number of entries in each. */
interface Places {
  readonly keys: readonly Buffer[];
  readonly run: number;
}

/** Draws runs for the number of entries. A directory with fewer entries is checked completely. */
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
  /** The entryUUIDs (Latin-1) of checked entries, as runs may overlap. */
  const seen = new Set<string>();
  await runSurvey(
    context,
    ({ breach }) => void breaches.push(breach),
    () => piecework?.proceed(),
    async (pass) => {
      for (const place of keys) {
        await piecework?.proceed();
        const later = await checkRun(pass, { from: place }, run, seen);
        // A run wraps around at the last entry, so that all entries are equally likely to be drawn.
        if (later < run) await checkRun(pass, { to: place }, run - later, seen);
      }
    },
  );
  return { entries: seen.size, breaches };
}

/** Checks the first entries of a range, at most `limit`, and returns their number. */
async function checkRun(survey: Survey, range: KeyRange, limit: number, seen: Set<string>): Promise<number> {
  const keys = await keysOf(survey.reader.scan(MASTER_TABLE.name, range, { limit, keysOnly: true }));
  if (keys.length === 0) return 0;
  for (const key of keys) seen.add(key.toString('latin1'));
  const checked = { from: keys[0]!, to: keyAfter(keys.at(-1)!) };
  await checkEntriesIn(survey, checked, (entries) => checkPostings(survey, entries));
  return keys.length;
}

/** Checks that the index rows of the entries exist in all complete indexes. */
async function checkPostings(survey: Survey, entries: readonly EntryRow[]): Promise<void> {
  for (const { id, implied } of entries) {
    const rows = (implied?.rows ?? []).filter(({ index }) => isComplete(index));
    const found = await Promise.all(
      rows.map(({ index, keyPrefix: prefix }) => {
        const key = Buffer.concat([prefix, id]);
        return survey.reader.count(index.table, { from: key, to: keyAfter(key) }, 1);
      }),
    );
    for (const [i, { index }] of rows.entries())
      if (found[i] === 0)
        await survey.report('index', uuidText(id), `an index row of '${index.type.name}' is missing; repair adds it`);
  }
}
