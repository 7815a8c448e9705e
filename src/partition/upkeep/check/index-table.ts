import { cellValue, MARK } from '../../../store/row.js';
import { ImpliedRows, implyType } from '../../model/implied.js';
import { type Index, isComplete } from '../../model/index-set.js';
import { readAllLarge, retryWhileReplaced } from '../../model/large.js';
import { draftWithLarge } from '../../model/large-draft.js';
import { MASTER, MASTER_TABLE, Q, UUID_BYTES } from '../../model/tables.js';
import { uuidText } from '../../model/uuid.js';
import { Fingerprint } from './fingerprint.js';
import { type Survey, shown } from './survey.js';

/**
 * Checks that the rows of every index are exactly those that the entries imply. Fingerprints are compared first, and
 * rows are looked up only where these differ. An index that is being built may lack rows.
 */
export async function checkIndexRows(survey: Survey): Promise<void> {
  for (const [index, expected] of survey.expected) {
    if (isComplete(index) && (await fingerprint(survey, index)).equals(expected)) continue;
    // The content of a damaged list is unknown, so its rows are neither missing nor superfluous.
    if (!survey.isWhole(index.table)) {
      survey.skip(`index of ${index.type.name}`, index.table);
      continue;
    }
    if (isComplete(index)) await checkMissing(survey, index);
    await checkExtra(survey, index);
  }
}

async function fingerprint(survey: Survey, index: Index): Promise<Fingerprint> {
  const found = new Fingerprint();
  await survey.forEachBatch(index.table, true, async (keys) => {
    for (const key of keys) {
      if (survey.unreadable.size === 0 || !survey.unreadable.has(key.toString('latin1', key.length - UUID_BYTES)))
        found.add(key);
    }
  });
  return found;
}

async function checkMissing(survey: Survey, index: Index): Promise<void> {
  await survey.forEachBatch(MASTER_TABLE.name, false, async (ids, rows) => {
    const wanted: { readonly id: Buffer; readonly row: Buffer; readonly prefix: Buffer }[] = [];
    for (const [i, id] of ids.entries()) {
      if (id.length !== UUID_BYTES || survey.unreadable.has(id.toString('latin1'))) continue;
      const row = rows[i]!;
      for (const prefix of await prefixesOf(survey, index, id, row)) wanted.push({ id, row, prefix });
    }
    const found = await survey.getMany(
      index.table,
      wanted.map(({ prefix, id }) => Buffer.concat([prefix, id])),
    );
    for (const [i, { id, row, prefix }] of wanted.entries()) {
      if (found[i]) continue;
      await survey.report(
        'index',
        uuidText(id),
        `row ${shown(prefix)} of the index of ${index.type.name} is missing; repair puts it`,
        [
          ...survey.guards(id, cellValue(row, MASTER.treeInfo, Q.version)),
          { table: index.table, key: Buffer.concat([prefix, id]), put: [MARK] },
        ],
      );
    }
  });
}

async function checkExtra(survey: Survey, index: Index): Promise<void> {
  const isWhole = survey.isWhole(MASTER_TABLE.name);
  if (!isWhole) survey.skip(`rows of no entry in the index of ${index.type.name}`, MASTER_TABLE.name);
  await survey.forEachBatch(index.table, true, async (keys) => {
    const ids = keys.map((key) => key.subarray(key.length - UUID_BYTES));
    const masters = await survey.getMany(MASTER_TABLE.name, ids);
    for (const [i, key] of keys.entries()) {
      const id = ids[i]!;
      const master = masters[i];
      if (survey.unreadable.has(id.toString('latin1'))) continue;
      if (!isWhole && !master) continue;
      const prefix = key.subarray(0, key.length - UUID_BYTES);
      if (master && (await prefixesOf(survey, index, id, master)).some((wanted) => wanted.equals(prefix))) continue;
      const what = master ? 'the entry does not imply it' : 'there is no such entry';
      await survey.report(
        'index',
        uuidText(id),
        `row ${shown(prefix)} of the index of ${index.type.name} is too many: ${what}; repair removes it`,
        [
          ...survey.guards(id, master && cellValue(master, MASTER.treeInfo, Q.version)),
          { table: index.table, key, deleteRow: true },
        ],
      );
    }
  });
}

/** Returns the prefixes of the rows that an entry implies in an index. */
async function prefixesOf(survey: Survey, index: Index, id: Buffer, row: Buffer): Promise<Buffer[]> {
  return retryWhileReplaced(async (again) => {
    const now = again ? await survey.get(MASTER_TABLE.name, id) : row;
    return now ? rowPrefixes(survey, index, id, now) : [];
  });
}

async function rowPrefixes(survey: Survey, index: Index, id: Buffer, row: Buffer): Promise<Buffer[]> {
  const large = await readAllLarge(survey.reader, MASTER_TABLE.name, id, row);
  const attributes = draftWithLarge(survey.context, row, large).ofType(index.type);
  const implied = new ImpliedRows();
  implyType(index.type, attributes, index, implied);
  return implied.rows.map(({ keyPrefix: prefix }) => prefix);
}
