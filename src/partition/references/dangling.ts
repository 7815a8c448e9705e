import { isPromise } from '../../store/maybe.js';
import { nextCell, valueStart } from '../../store/row.js';
import { withoutUid } from '../model/group-rows.js';
import { presentRow, type StaleValue } from '../model/present-row.js';
import { MASTER, MASTER_TABLE, PRESENCE_PREFIX, UUID_BYTES } from '../model/tables.js';
import { idBatches } from '../read/plan/sources.js';
import type { SearchContext } from '../read/run/search-context.js';
import { Turns } from '../read/run/turns.js';
import { findEntry } from '../tree/locate.js';
import { suffixAt } from '../tree/nodes.js';
import type { WriteContext } from '../write/context.js';
import { type Referring, replaceValues } from './replace.js';

/** A value that names an entry below a suffix which is not there. */
export interface Dangling {
  /** The entry that has it. */
  readonly dn: string;
  readonly attribute: string;
  readonly value: string;
}

/** Rows that are read together. */
const ROWS = 16;
/** Values of one entry that are removed in one plan. */
const TOGETHER = 500;

/**
 * Tells every reference to an entry that is not there, and removes it where that is asked; resolves with their number.
 * Names outside all suffixes, and the administrator's, are none.
 */
export async function dangling(
  context: SearchContext & WriteContext,
  onDangling: (found: Dangling) => void,
  remove = false,
): Promise<number> {
  const { store, shared, schema, nodes } = context;
  if (remove) await context.references.settle();
  const turns = new Turns();
  let count = 0;
  for (const type of shared.references) {
    const source = { table: shared.indexes.of(type)!.table, prefix: PRESENCE_PREFIX };
    for await (const batch of idBatches(source, store, ROWS)) {
      for (let at = 0; at < batch.length; at += UUID_BYTES) {
        const id = Buffer.from(batch.subarray(at, at + UUID_BYTES));
        const stored = await store.get(MASTER_TABLE.name, id);
        const node = stored && (await nodes.byId(id));
        if (!node) continue;
        const row = presentRow(context, stored);
        const entry = { id, dn: schema.parseDnBytes(node.dn), row };
        const found = await danglingIn(context, entry, type, turns);
        for (const { description, value } of found)
          onDangling({ dn: entry.dn.text, attribute: description, value: value.toString() });
        for (let from = 0; remove && from < found.length; from += TOGETHER)
          await replaceValues(context, entry, found.slice(from, from + TOGETHER));
        count += found.length;
      }
    }
  }
  return count;
}

async function danglingIn(
  context: SearchContext,
  { row }: Referring,
  wanted: StaleValue['type'],
  turns: Turns,
): Promise<Omit<StaleValue, 'at'>[]> {
  const { descriptions, schema, shared, store } = context;
  const found: Omit<StaleValue, 'at'>[] = [];
  for (let at = 0; at < row.length && row[at]! <= MASTER.upAttributes; at = nextCell(row, at)) {
    if (row[at] !== MASTER.upAttributes) continue;
    const { description, name } = descriptions.ofCell(row, at);
    if (description.type !== wanted) continue;
    const value = Buffer.from(row.subarray(valueStart(row, at), nextCell(row, at)));
    const dn = schema.parseDnBytes(withoutUid(wanted, value));
    if (suffixAt(dn, shared.suffixes) < 0 || dn.norm.equals(schema.parseDn(shared.settings.adminDn).norm)) continue;
    const entry = findEntry(context, store, dn, 'getHead');
    if (!(isPromise(entry) ? await entry : entry))
      found.push({ type: wanted, description: name, value, present: undefined });
    const pause = turns.pass();
    if (isPromise(pause)) await pause;
  }
  return found;
}
