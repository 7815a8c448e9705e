import type { Cell, RowStep } from '../../store/contract.js';
import { MARK } from '../../store/row.js';
import type { ImpliedRow } from '../model/implied.js';

/** Returns the steps that replace the index rows `oldRows` of the entry by `newRows`. */
export function indexSteps(id: Buffer, oldRows: readonly ImpliedRow[], newRows: readonly ImpliedRow[]): RowStep[] {
  const rowName = ({ index, keyPrefix: prefix }: ImpliedRow) => `${index.type.oid} ${latin1(prefix)}`;
  const { removedItems, addedItems } = differences(oldRows, newRows, rowName);
  const steps: RowStep[] = [];
  for (const { index, keyPrefix: prefix } of removedItems)
    steps.push({ table: index.table, key: Buffer.concat([prefix, id]), deleteRow: true });
  for (const { index, keyPrefix: prefix } of addedItems)
    steps.push({ table: index.table, key: Buffer.concat([prefix, id]), put: [MARK] });
  return steps;
}

/** Returns the cells of normAttributes to delete and to write. */
export function normCellChanges(
  oldCells: readonly Cell[],
  newCells: readonly Cell[],
): { removedCells: Cell[]; writtenCells: readonly Cell[] } {
  const { removedItems: removedCells, addedItems: writtenCells } = differences(
    oldCells,
    newCells,
    ({ qualifier }) => latin1(qualifier),
    (a, b) => a.value.equals(b.value),
  );
  return { removedCells: [...removedCells], writtenCells };
}

/** Compares two lists by the names of their elements. Returns those to remove, and those that are new or changed. */
function differences<T>(
  oldList: readonly T[],
  newList: readonly T[],
  nameOf: (element: T) => string,
  isSame: (a: T, b: T) => boolean = () => true,
): { removedItems: Iterable<T>; addedItems: readonly T[] } {
  if (oldList.length === 0 || newList.length === 0) return { removedItems: oldList, addedItems: newList };
  const removedByName = new Map<string, T>();
  for (const element of oldList) removedByName.set(nameOf(element), element);
  const addedItems: T[] = [];
  for (const element of newList) {
    const itemName = nameOf(element);
    const itemBefore = removedByName.get(itemName);
    removedByName.delete(itemName);
    if (itemBefore === undefined || !isSame(itemBefore, element)) addedItems.push(element);
  }
  return { removedItems: removedByName.values(), addedItems };
}

function latin1(bytes: Buffer): string {
  return bytes.toString('latin1');
}
