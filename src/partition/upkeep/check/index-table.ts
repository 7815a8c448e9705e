import { MARK } from '../../../store/row.js';
import { ImpliedRows, implyType } from '../../model/implied.js';
import { type Index, isComplete } from '../../model/index-set.js';
import { MASTER_TABLE, UUID_BYTES } from '../../model/tables.js';
import { uuidText } from '../../model/uuid.js';
import { Fingerprint } from './fingerprint.js';
import { readImplyingDraft } from './record.js';
import { printable, type Survey } from './survey.js';

/**
 * Checks that every index has exactly the rows that the entries imply. Compares fingerprints, and looks up rows only if
 * these differ. An index that is being built may lack rows.
 */
export async function checkIndexRows(survey: Survey): Promise<void> {
  for (const [index, expected] of survey.expectedFingerprints) {
    if (isComplete(index) && (await readFingerprint(survey, index)).equals(expected)) continue;
    // The contents of a damaged list are unknown, so no row can be judged missing or superfluous.
    if (!survey.isFullyReadable(index.table)) {
      survey.noteSkipped(`index of ${index.type.name}`, index.table);
      continue;
    }
    if (isComplete(index)) await checkMissingRows(survey, index);
    await checkExtraRows(survey, index);
  }
}

async function readFingerprint(survey: Survey, index: Index): Promise<Fingerprint> {
  const fingerprint = new Fingerprint();
  await survey.forEachBatch(index.table, true, async (keys) => {
    for (const key of keys) {
      if (survey.unreadableIds.size === 0 || !survey.unreadableIds.has(key.toString('latin1', key.length - UUID_BYTES)))
        fingerprint.add(key);
    }
  });
  return fingerprint;
}

async function checkMissingRows(survey: Survey, index: Index): Promise<void> {
  await survey.forEachBatch(MASTER_TABLE.name, false, async (ids, rows) => {
    const entries: ImplyingEntry[] = [];
    for (const [i, id] of ids.entries()) {
      if (id.length !== UUID_BYTES || survey.unreadableIds.has(id.toString('latin1'))) continue;
      const row = rows[i]!;
      entries.push({ id, row, prefixes: await impliedPrefixes(survey, index, id, row) });
    }
    await reportMissingRows(survey, index, entries);
  });
}

/** An entry with the prefixes of the rows that it implies in an index. */
interface ImplyingEntry {
  readonly id: Buffer;
  readonly row: Buffer;
  readonly prefixes: readonly Buffer[];
}

/** Reports the rows that are missing in an index. */
export async function reportMissingRows(
  survey: Survey,
  index: Index,
  entries: readonly ImplyingEntry[],
): Promise<void> {
  const impliedRows = entries.flatMap(({ id, row, prefixes }) =>
    prefixes.map((prefix) => ({ id, row, prefix, key: Buffer.concat([prefix, id]) })),
  );
  const indexRows = await survey.getMany(
    index.table,
    impliedRows.map(({ key }) => key),
  );
  for (const [i, { id, row, prefix, key }] of impliedRows.entries()) {
    if (indexRows[i]) continue;
    const message = `row ${printable(prefix)} of the index of ${index.type.name} is missing; repair puts it`;
    const fix = [...survey.guards(id, row), { table: index.table, key, put: [MARK] }];
    await survey.report('index', uuidText(id), message, fix);
  }
}

async function checkExtraRows(survey: Survey, index: Index): Promise<void> {
  const isWhole = survey.isFullyReadable(MASTER_TABLE.name);
  if (!isWhole) survey.noteSkipped(`rows of no entry in the index of ${index.type.name}`, MASTER_TABLE.name);
  await survey.forEachBatch(index.table, true, async (keys) => {
    const ids = keys.map((key) => key.subarray(key.length - UUID_BYTES));
    const masterRows = await survey.getMany(MASTER_TABLE.name, ids);
    for (const [i, key] of keys.entries()) {
      const id = ids[i]!;
      const masterRow = masterRows[i];
      if (survey.unreadableIds.has(id.toString('latin1'))) continue;
      if (!isWhole && !masterRow) continue;
      const prefix = key.subarray(0, key.length - UUID_BYTES);
      if (masterRow && (await impliedPrefixes(survey, index, id, masterRow)).some((wanted) => wanted.equals(prefix)))
        continue;
      const reason = masterRow ? 'the entry does not imply it' : 'there is no such entry';
      const message = `row ${printable(prefix)} of the index of ${index.type.name} is too many: ${reason}; repair removes it`;
      const guards = survey.guards(id, masterRow);
      await survey.report('index', uuidText(id), message, [...guards, { table: index.table, key, deleteRow: true }]);
    }
  });
}

/** Returns the prefixes of the rows that an entry implies in an index. */
async function impliedPrefixes(survey: Survey, index: Index, id: Buffer, row: Buffer): Promise<Buffer[]> {
  const draft = await readImplyingDraft(survey, id, row);
  const implied = new ImpliedRows();
  if (draft) implyType(index.type, draft.ofType(index.type), index, implied);
  return implied.rows.map(({ keyPrefix }) => keyPrefix);
}
