import type { Cell, RowStep } from '../../store/contract.js';
import { MARK } from '../../store/row.js';
import type { ImpliedRow } from '../model/implied.js';

/** Returns the steps that change the index rows of the entry `id` from `before` to `after`. */
export function indexSteps(id: Buffer, before: readonly ImpliedRow[], after: readonly ImpliedRow[]): RowStep[] {
  const { gone, come } = differences(
    before,
    after,
    ({ index, keyPrefix: prefix }) => `${index.type.oid} ${nameOf(prefix)}`,
  );
  const steps: RowStep[] = [];
  for (const { index, keyPrefix: prefix } of gone)
    steps.push({ table: index.table, key: Buffer.concat([prefix, id]), deleteRow: true });
  for (const { index, keyPrefix: prefix } of come)
    steps.push({ table: index.table, key: Buffer.concat([prefix, id]), put: [MARK] });
  return steps;
}

/** Returns the cells of normAttributes to be deleted and to be written. */
export function normCellChanges(
  before: readonly Cell[],
  after: readonly Cell[],
): { gone: Cell[]; come: readonly Cell[] } {
  const { gone, come } = differences(
    before,
    after,
    ({ qualifier }) => nameOf(qualifier),
    (a, b) => a.value.equals(b.value),
  );
  return { gone: [...gone], come };
}

/** Compares two lists of items by name. Returns the items to be removed, and the new or changed items. */
function differences<T>(
  before: readonly T[],
  after: readonly T[],
  nameOf: (item: T) => string,
  isSame: (a: T, b: T) => boolean = () => true,
): { gone: Iterable<T>; come: readonly T[] } {
  if (before.length === 0 || after.length === 0) return { gone: before, come: after };
  const gone = new Map<string, T>();
  for (const item of before) gone.set(nameOf(item), item);
  const come: T[] = [];
  for (const item of after) {
    const name = nameOf(item);
    const known = gone.get(name);
    gone.delete(name);
    if (known === undefined || !isSame(known, item)) come.push(item);
  }
  return { gone: gone.values(), come };
}

function nameOf(bytes: Buffer): string {
  return bytes.toString('latin1');
}
