import { parseStateOptions } from '../../../schema/state-options.js';
import type { Cell, CellName } from '../../../store/contract.js';
import { type Draft, type DraftAttribute, wideAttributeOf } from '../../model/draft.js';
import { largeList, valueQualifier } from '../../model/entry-cells.js';
import { largeQualifiers, MASTER, MASTER_TABLE, Q } from '../../model/tables.js';
import { uuidText } from '../../model/uuid.js';
import { valueKey } from '../../model/value-set.js';
import { editedCells, repairRecord } from './record.js';
import { nextVersion, type Survey } from './survey.js';

const family = MASTER.upAttributes;

/** Checks that operational attributes have no options, and no attribute has state options of another server. */
export async function checkOptions(
  survey: Survey,
  id: Buffer,
  row: Buffer,
  version: Buffer,
  draft: Draft,
): Promise<void> {
  const wrong = draft.attributes.filter(isWrong);
  if (wrong.length === 0) return;
  const large = largeQualifiers(row) ?? new Set<string>();
  const cells = wrong.flatMap(({ text, values }) => values.map(({ index }) => valueQualifier(text, index)));
  const lost = cells.map((qualifier) => qualifier.toString('latin1')).filter((name) => large.has(name));
  const { kept, movesLarge } = keptOf(survey, draft, wrong, large);
  const names = wrong.map(({ text }) => text).join(', ');
  const what = `${names}: operational attributes take no options, and state options of other servers are none`;
  if (movesLarge) {
    const message = `${what}; repair leaves values over 64 KiB: add them without the options, and delete these`;
    return survey.report('options', uuidText(id), message);
  }
  const gone: CellName[] = cells.map((qualifier) => ({ family, qualifier }));
  const put: Cell[] = [...kept, { family: MASTER.treeInfo, qualifier: Q.version, value: nextVersion(version) }];
  const rest = [...large].filter((name) => !lost.includes(name)).map((name) => Buffer.from(name, 'latin1'));
  if (lost.length > 0 && rest.length === 0) gone.push({ family: MASTER.treeInfo, qualifier: Q.large });
  else if (lost.length > 0) put.push({ family: MASTER.treeInfo, qualifier: Q.large, value: largeList(rest) });
  const isGone = (cell: CellName) =>
    gone.some((name) => name.family === cell.family && name.qualifier.equals(cell.qualifier));
  const types = [...new Set(wrong.map(({ description }) => description.type.name))];
  await survey.report(
    'options',
    uuidText(id),
    `${what}; repair removes ${cells.length - kept.length} values, and keeps ${kept.length} without them`,
    [
      ...survey.guards(id, version),
      { table: MASTER_TABLE.name, key: id, delete: gone, put },
      repairRecord(survey, id, row, editedCells(row, isGone, put), { op: 'modify', attributes: types }),
    ],
  );
}

/** Whether the options of an attribute are wrong. Secrets with options are handled by `checkSecrets`. */
function isWrong({ description: { type, options }, text }: DraftAttribute): boolean {
  if (options.length === 0 || type.secret) return false;
  return type.operational || parseStateOptions(text) !== undefined;
}

/**
 * Returns the live values that the attribute without options lacks, under its name, and whether large ones would move.
 */
function keptOf(
  survey: Survey,
  draft: Draft,
  wrong: readonly DraftAttribute[],
  large: ReadonlySet<string>,
): { kept: Cell[]; movesLarge: boolean } {
  const { schema } = survey.context;
  const targets = new Map<string, { text: string; next: number; names: Set<string> }>();
  const kept: Cell[] = [];
  let movesLarge = false;
  for (const { description, text, values } of wrong) {
    const { type } = description;
    const state = parseStateOptions(text);
    const bare = state && !state.isDeleted ? schema.requireDescription(state.text) : undefined;
    if (!bare || (type.operational && bare.options.length > 0)) continue;
    const known = draft.get(bare);
    const target = targets.get(bare.text) ?? {
      text: known?.text ?? bare.text,
      next: known ? wideAttributeOf(known).nextIndex : 0,
      names: new Set(known?.values.map(({ bytes }) => valueKey(type, bytes))),
    };
    targets.set(bare.text, target);
    for (const { index, bytes } of values) {
      if (target.names.has(valueKey(type, bytes)) || (type.singleValue && target.names.size > 0)) continue;
      movesLarge ||= large.has(valueQualifier(text, index).toString('latin1'));
      target.names.add(valueKey(type, bytes));
      kept.push({ family, qualifier: valueQualifier(target.text, target.next++), value: bytes });
    }
  }
  return { kept, movesLarge };
}
