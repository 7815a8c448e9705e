import type { RowStep } from '../../store/contract.js';
import { cellCounter, cellValue, EMPTY, unpackRow } from '../../store/row.js';
import { isMissing, type MissingIndex } from '../model/index-set.js';
import { META_TABLE } from '../model/tables.js';
import type { WriteContext } from '../write/context.js';

/** Row of table `meta` with the indexes that searches lacked (docs/formats/tables.md). */
const KEY = Buffer.from('proposals');
/** The most proposals in the row. Beyond this number, the proposals with the fewest rows in vain are deleted. */
const MAX_PROPOSALS = 100;

const column = (name: string) => ({ family: 0, qualifier: Buffer.from(name) });
const TENDED = column('tended');

/** Searches that lacked an index. */
export interface IndexTally extends MissingIndex {
  readonly searches: number;
  /** Number of rows that the searches examined and that did not match. */
  readonly rowsInVain: number;
  /** Milliseconds since 1970. */
  readonly lastSeen: number;
}

export interface StoredProposals {
  /** The greatest gain first. Without indexes that exist by now. */
  readonly proposals: readonly IndexTally[];
  /** Time of the last use of the made indexes in milliseconds since 1970, by OID. */
  readonly lastUsed: ReadonlyMap<string, number>;
  /** Last run of job `indexes` in milliseconds since 1970; 0: never. */
  readonly tended: number;
}

/** Text of a missing index in qualifiers: its OID, with `~` for substrings. */
export function keyOfMissing({ type, substring }: MissingIndex): string {
  return `${type.oid}${substring ? '~' : ''}`;
}

function tallyColumns(tally: MissingIndex) {
  const name = keyOfMissing(tally);
  return { searches: column(`${name}:searches`), rows: column(`${name}:rows`), seen: column(`${name}:seen`) };
}

export async function readProposals(context: WriteContext): Promise<StoredProposals> {
  const { proposals, ...others } = await readRow(context);
  await context.shared.refresh();
  return { ...others, proposals: proposals.filter((one) => isMissing(context.shared.indexes, one)) };
}

async function readRow({ store, schema }: WriteContext): Promise<StoredProposals> {
  const row = (await store.get(META_TABLE.name, KEY)) ?? EMPTY;
  const timeIn = ({ qualifier }: { qualifier: Buffer }) => Number(cellValue(row, 0, qualifier)?.toString() ?? 0);
  const proposals: IndexTally[] = [];
  const lastUsed = new Map<string, number>();
  for (const { qualifier } of unpackRow(row)) {
    const [, oid, gram, kind] = /^([\d.]+)(~?):(seen|used)$/.exec(qualifier.toString('latin1')) ?? [];
    const type = oid === undefined ? undefined : schema.attribute(oid);
    if (kind === 'used') lastUsed.set(oid!, timeIn({ qualifier }));
    if (!type || kind !== 'seen') continue;
    const columns = tallyColumns({ type, substring: gram !== '' });
    const searches = Number(cellCounter(row, 0, columns.searches.qualifier));
    const rowsInVain = Number(cellCounter(row, 0, columns.rows.qualifier));
    proposals.push({ type, substring: gram !== '', searches, rowsInVain, lastSeen: timeIn(columns.seen) });
  }
  proposals.sort((a, b) => b.rowsInVain - a.rowsInVain);
  return { proposals, lastUsed, tended: timeIn(TENDED) };
}

/**
 * Adds the tallies of a process to those of all processes, and notes the uses of made indexes. `usedNames`: attributes
 * whose index searches have used.
 */
export async function addTallies(
  context: WriteContext,
  tallies: readonly IndexTally[],
  usedNames: ReadonlySet<string>,
  now: number,
): Promise<void> {
  const { proposals } = await readRow(context);
  await context.shared.refresh();
  const { indexes } = context.shared;
  const sums = new Map(proposals.map((one) => [keyOfMissing(one), one.rowsInVain]));
  for (const one of tallies) sums.set(keyOfMissing(one), (sums.get(keyOfMissing(one)) ?? 0) + one.rowsInVain);
  const limit = [...sums.values()].sort((a, b) => b - a)[MAX_PROPOSALS] ?? -1;
  const isKept = (one: IndexTally) => isMissing(indexes, one) && sums.get(keyOfMissing(one))! > limit;
  const keptTallies = tallies.filter(isKept);
  const used = indexes.list.filter(({ isMade, type }) => isMade && usedNames.has(type.name));
  await commitRow(context, {
    delete: proposals.filter((one) => !isKept(one)).flatMap((one) => Object.values(tallyColumns(one))),
    add: keptTallies.flatMap((one) => [
      { ...tallyColumns(one).searches, by: BigInt(one.searches) },
      { ...tallyColumns(one).rows, by: BigInt(one.rowsInVain) },
    ]),
    put: [
      ...keptTallies.map((one) => ({ ...tallyColumns(one).seen, value: timeBytes(one.lastSeen) })),
      ...used.map(({ type }) => ({ ...column(`${type.oid}:used`), value: timeBytes(now) })),
    ],
  });
}

const timeBytes = (time: number) => Buffer.from(String(time));

async function commitRow(
  { store }: WriteContext,
  edits: Omit<RowStep, 'table' | 'key'>,
  fence?: RowStep,
): Promise<void> {
  const step = { table: META_TABLE.name, key: KEY, ...edits };
  const isEmpty = !step.deleteRow && [step.delete, step.add, step.put].every((list) => !list?.length);
  if (!isEmpty) await store.commit({ steps: fence ? [step, fence] : [step], decisive: 0 });
}

/** Deletes the proposals. */
export async function forgetProposals(context: WriteContext): Promise<void> {
  const { proposals } = await readRow(context);
  await commitRow(context, { delete: proposals.flatMap((one) => Object.values(tallyColumns(one))) });
}

/** Replaces the row after a run of job `indexes`. `proposals` are kept only where `keepsProposals`. */
export async function recordTended(
  context: WriteContext,
  lastUsed: ReadonlyMap<string, number>,
  now: number,
  keepsProposals: boolean,
  fence: RowStep | undefined,
): Promise<void> {
  const put = [...lastUsed].map(([oid, time]) => ({ ...column(`${oid}:used`), value: timeBytes(time) }));
  await commitRow(context, { deleteRow: !keepsProposals, put: [...put, { ...TENDED, value: timeBytes(now) }] }, fence);
}
