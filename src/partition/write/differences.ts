import type { Cell, RowStep } from '../../store/contract.js';
import { MARK } from '../../store/row.js';
import type { ImpliedRow } from '../model/implied.js';

/** Steps that bring the index rows of `id` from `before` to `after`. */
export function indexSteps(id: Buffer, before: readonly ImpliedRow[], after: readonly ImpliedRow[]): RowStep[] {
  const { gone, come } = differences(before, after, ({ index, prefix }) => `${index.type.oid} ${nameOf(prefix)}`);
  const steps: RowStep[] = [];
  for (const { index, prefix } of gone)
    steps.push({ table: index.table, key: Buffer.concat([prefix, id]), deleteRow: true });
  for (const { index, prefix } of come)
    steps.push({ table: index.table, key: Buffer.concat([prefix, id]), put: [MARK] });
  return steps;
}

/** Cells of normAttributes that go and that come. */
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

/** What goes and what comes from one list to another, of things that are known by a name. */
function differences<T>(
  before: readonly T[],
  after: readonly T[],
  nameOf: (one: T) => string,
  isSame: (a: T, b: T) => boolean = () => true,
): { gone: Iterable<T>; come: readonly T[] } {
  if (before.length === 0 || after.length === 0) return { gone: before, come: after };
  const gone = new Map<string, T>();
  for (const one of before) gone.set(nameOf(one), one);
  const come: T[] = [];
  for (const one of after) {
    const name = nameOf(one);
    const known = gone.get(name);
    gone.delete(name);
    if (known === undefined || !isSame(known, one)) come.push(one);
  }
  return { gone: gone.values(), come };
}

function nameOf(bytes: Buffer): string {
  return bytes.toString('latin1');
}
