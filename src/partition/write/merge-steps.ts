import type { Cell, CellName, Guard, Increment, PlanStep, RowStep } from '../../store/contract.js';
import { guardHolds } from '../../store/row-edit.js';
import { StoreError } from '../../store/store-error.js';

/**
 * Merges all steps on a row into one. Rows keep the order of their first steps. Guards are not repeated, and increments
 * of a counter are added up. The plan has the same effect, and fails under the same conditions, as before. Throws
 * `StoreError` `guard` if a step contradicts an earlier step on the same row.
 */
export function mergeSteps(steps: readonly PlanStep[]): PlanStep[] {
  const mergedByRow = new Map<string, MergedStep>();
  const mergedSteps: (MergedStep | PlanStep)[] = [];
  for (const step of steps) {
    if ('append' in step) {
      mergedSteps.push(step);
      continue;
    }
    const rowName = `${step.table} ${step.key.toString('latin1')}`;
    const existingStep = mergedByRow.get(rowName);
    if (existingStep) existingStep.addStep(step);
    else {
      const newStep = new MergedStep(step);
      mergedByRow.set(rowName, newStep);
      mergedSteps.push(newStep);
    }
  }
  return mergedSteps.map((step) => (step instanceof MergedStep ? step.toStep() : step));
}

/** The merged step on one row: the effect of all steps so far on each cell. */
class MergedStep {
  readonly #table: string;
  readonly #key: Buffer;
  readonly #guards: Guard[] = [];
  #deletesRow = false;
  readonly #deletes = new Map<string, CellName>();
  readonly #puts = new Map<string, Cell>();
  readonly #adds = new Map<string, Increment>();
  #allFollow = true;
  readonly #steps: RowStep[] = [];

  constructor(step: RowStep) {
    this.#table = step.table;
    this.#key = step.key;
    this.addStep(step);
  }

  addStep(step: RowStep): void {
    this.#steps.push(step);
    for (const guard of step.guards ?? []) this.#addGuard(guard);
    if (step.deleteRow) {
      this.#deletesRow = true;
      for (const cells of [this.#deletes, this.#puts, this.#adds]) cells.clear();
    }
    for (const cell of step.delete ?? []) this.#replaceEffect(cell, this.#deletes, cell);
    for (const cell of step.put ?? []) {
      this.#deletes.delete(cellKey(cell));
      this.#replaceEffect(cell, this.#puts, cell);
    }
    for (const add of step.add ?? []) {
      const earlierAdd = this.#adds.get(cellKey(add));
      this.#adds.set(cellKey(add), earlierAdd ? { ...earlierAdd, by: earlierAdd.by + add.by } : add);
    }
    this.#allFollow &&= step.follows === true;
  }

  #replaceEffect<T extends CellName>(cell: CellName, list: Map<string, T>, now: T): void {
    const cellText = cellKey(cell);
    this.#puts.delete(cellText);
    this.#adds.delete(cellText);
    list.set(cellText, now);
  }

  /** Evaluates a guard on a cell that an earlier step writes. Keeps any other guard, which tests the stored row. */
  #addGuard(guard: Guard): void {
    const cellText = cellKey(guard);
    const put = this.#puts.get(cellText);
    const add = this.#adds.get(cellText);
    if (put || this.#deletesRow || this.#deletes.has(cellText)) {
      const value = add ? this.#counterValue(put, add) : put?.value;
      if (!guardHolds(guard, value))
        throw new StoreError('guard', `a step on ${this.#table} is guarded by what another of the plan changes`);
      return;
    }
    const storedGuard = add ? this.#guardBeforeAdd(guard, add) : guard;
    if (!this.#guards.some((known) => isSameGuard(known, storedGuard))) this.#guards.push(storedGuard);
  }

  #counterValue(put: Cell | undefined, add: Increment): Buffer {
    const value = Buffer.alloc(8);
    value.writeBigInt64BE((put ? put.value.readBigInt64BE() : 0n) + add.by);
    return value;
  }

  /** Returns the guard for the stored value of a counter, from a guard for the value after an earlier increment. */
  #guardBeforeAdd(guard: Guard, add: Increment): Guard {
    if (guard.op !== 'counterEquals') throw new TypeError(`a counter of ${this.#table} is guarded by ${guard.op}`);
    return { ...guard, value: guard.value - add.by };
  }

  toStep(): RowStep {
    if (this.#steps.length === 1) return this.#steps[0]!;
    const adds = [...this.#adds.values()].filter(({ by }) => by !== 0n);
    return {
      table: this.#table,
      key: this.#key,
      ...(this.#guards.length > 0 && { guards: this.#guards }),
      ...(this.#deletesRow && { deleteRow: true }),
      ...(this.#deletes.size > 0 && { delete: [...this.#deletes.values()] }),
      ...(this.#puts.size > 0 && { put: [...this.#puts.values()] }),
      ...(adds.length > 0 && { add: adds }),
      ...(this.#allFollow && { follows: true }),
    };
  }
}

function cellKey({ family, qualifier }: CellName): string {
  return `${family} ${qualifier.toString('latin1')}`;
}

function isSameGuard(a: Guard, b: Guard): boolean {
  if (a.op !== b.op || a.family !== b.family || !a.qualifier.equals(b.qualifier)) return false;
  if (a.op === 'absent' || b.op === 'absent') return true;
  return a.op === 'equals' && b.op === 'equals'
    ? a.value.equals(b.value)
    : a.op === 'counterEquals' && b.op === 'counterEquals' && a.value === b.value;
}
