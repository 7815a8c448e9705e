import type { Cell, CellName, Guard, Increment, PlanStep, RowStep } from '../../store/contract.js';
import { guardHolds } from '../../store/row-edit.js';
import { StoreError } from '../../store/store-error.js';

/**
 * Merges the steps on each row into one step. Rows keep the order of their first steps. Guards are not repeated, and
 * increments of a counter are added up. The effect of the plan, and when the plan fails, stay the same. Throws
 * `StoreError` `guard` where a step contradicts an earlier step of the same row.
 */
export function mergeSteps(steps: readonly PlanStep[]): PlanStep[] {
  const rows = new Map<string, Merged>();
  const merged: (Merged | PlanStep)[] = [];
  for (const step of steps) {
    if ('append' in step) {
      merged.push(step);
      continue;
    }
    const name = `${step.table} ${step.key.toString('latin1')}`;
    const known = rows.get(name);
    if (known) known.add(step);
    else {
      const first = new Merged(step);
      rows.set(name, first);
      merged.push(first);
    }
  }
  return merged.map((step) => (step instanceof Merged ? step.step() : step));
}

/** The merged steps on one row: the effect of all steps so far on each cell. */
class Merged {
  readonly #table: string;
  readonly #key: Buffer;
  readonly #guards: Guard[] = [];
  #deleteRow = false;
  readonly #deletes = new Map<string, CellName>();
  readonly #puts = new Map<string, Cell>();
  readonly #adds = new Map<string, Increment>();
  #follows = true;
  readonly #steps: RowStep[] = [];

  constructor(step: RowStep) {
    this.#table = step.table;
    this.#key = step.key;
    this.add(step);
  }

  add(step: RowStep): void {
    this.#steps.push(step);
    for (const guard of step.guards ?? []) this.#guard(guard);
    if (step.deleteRow) {
      this.#deleteRow = true;
      for (const cells of [this.#deletes, this.#puts, this.#adds]) cells.clear();
    }
    for (const cell of step.delete ?? []) this.#replace(cell, this.#deletes, cell);
    for (const cell of step.put ?? []) {
      this.#deletes.delete(nameOf(cell));
      this.#replace(cell, this.#puts, cell);
    }
    for (const add of step.add ?? []) {
      const known = this.#adds.get(nameOf(add));
      this.#adds.set(nameOf(add), known ? { ...known, by: known.by + add.by } : add);
    }
    this.#follows &&= step.follows === true;
  }

  /** Replaces what earlier steps do to the cell. */
  #replace<T extends CellName>(cell: CellName, list: Map<string, T>, now: T): void {
    const name = nameOf(cell);
    this.#puts.delete(name);
    this.#adds.delete(name);
    list.set(name, now);
  }

  /** Decides a guard on a cell that an earlier step has written; keeps other guards, which test the stored row. */
  #guard(guard: Guard): void {
    const name = nameOf(guard);
    const put = this.#puts.get(name);
    const add = this.#adds.get(name);
    if (put || this.#deleteRow || this.#deletes.has(name)) {
      const value = add ? this.#sum(put, add) : put?.value;
      if (!guardHolds(guard, value))
        throw new StoreError('guard', `a step on ${this.#table} is guarded by what another of the plan changes`);
      return;
    }
    const own = add ? this.#before(guard, add) : guard;
    if (!this.#guards.some((known) => isSame(known, own))) this.#guards.push(own);
  }

  #sum(put: Cell | undefined, add: Increment): Buffer {
    const value = Buffer.alloc(8);
    value.writeBigInt64BE((put ? put.value.readBigInt64BE() : 0n) + add.by);
    return value;
  }

  /** Returns the guard for the stored value of a counter that an earlier step increments. */
  #before(guard: Guard, add: Increment): Guard {
    if (guard.op !== 'counterEquals') throw new TypeError(`a counter of ${this.#table} is guarded by ${guard.op}`);
    return { ...guard, value: guard.value - add.by };
  }

  step(): RowStep {
    if (this.#steps.length === 1) return this.#steps[0]!;
    const adds = [...this.#adds.values()].filter(({ by }) => by !== 0n);
    return {
      table: this.#table,
      key: this.#key,
      ...(this.#guards.length > 0 && { guards: this.#guards }),
      ...(this.#deleteRow && { deleteRow: true }),
      ...(this.#deletes.size > 0 && { delete: [...this.#deletes.values()] }),
      ...(this.#puts.size > 0 && { put: [...this.#puts.values()] }),
      ...(adds.length > 0 && { add: adds }),
      ...(this.#follows && { follows: true }),
    };
  }
}

function nameOf({ family, qualifier }: CellName): string {
  return `${family} ${qualifier.toString('latin1')}`;
}

function isSame(a: Guard, b: Guard): boolean {
  if (a.op !== b.op || a.family !== b.family || !a.qualifier.equals(b.qualifier)) return false;
  if (a.op === 'absent' || b.op === 'absent') return true;
  return a.op === 'equals' && b.op === 'equals'
    ? a.value.equals(b.value)
    : a.op === 'counterEquals' && b.op === 'counterEquals' && a.value === b.value;
}
