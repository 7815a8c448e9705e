import type { PlanStep } from '../../../store/contract.js';
import { cellValue } from '../../../store/row.js';
import { isReplacedError } from '../../model/large.js';
import { implyingDraft } from '../../model/large-draft.js';
import { MASTER, MASTER_TABLE, Q, UUID_BYTES } from '../../model/tables.js';
import {
  idText,
  type Owners,
  ownersRange,
  ownersRowKey,
  ownersSteps,
  parseOwners,
  parseUniqueKey,
  severalRange,
  severalStep,
  UNIQUE_TABLE,
  uniqueValues,
} from '../../model/unique-rows.js';
import { uuidText } from '../../model/uuid.js';
import type { Constraint } from '../../model/value-rules.js';
import { isInScope, positionOf } from '../../write/unique-scope.js';
import { rowProblem } from './row-problem.js';
import { type Survey, shown } from './survey.js';

/**
 * Checks the owners of values under each uniqueness constraint, and that no two entries in the scope of a constraint in
 * force share a value. Rows of a constraint that is not yet in force may be missing.
 */
export async function checkUnique(survey: Survey): Promise<void> {
  for (const unique of survey.values.constraints) {
    const pass = new UniquePass(survey, unique);
    await pass.checkOwners();
    await pass.checkShared();
    if (unique.record.ready) await pass.checkEntries();
  }
}

type Rows = readonly (Buffer | undefined)[];

class UniquePass {
  readonly #survey: Survey;
  readonly #unique: Constraint;

  constructor(survey: Survey, unique: Constraint) {
    this.#survey = survey;
    this.#unique = unique;
  }

  /** Checks that every owner has the value, and that at most one owner is in the scope. */
  async checkOwners(): Promise<void> {
    const isWhole = this.#survey.isWhole(MASTER_TABLE.name);
    if (!isWhole) this.#survey.skip('unique values of no entry', MASTER_TABLE.name);
    await this.#each(ownersRange(this.#unique), async (norm, row) => {
      const owners = await this.#readOwners(norm, row);
      if (!owners || owners.isTruncated) return;
      const wrong = isWhole ? await this.#wrongOwners(norm, owners) : [];
      if (wrong.length > 0) return this.#reportWrongOwners(norm, owners, wrong);
      if (owners.ids.length < 2) return;
      const shared = await this.#survey.get(UNIQUE_TABLE.name, severalStep(this.#unique, norm, true).key);
      if (!shared)
        await this.#report(norm, "it is several entries', and no row says so; repair puts it", [
          ...this.#ownersGuard(norm, owners),
          severalStep(this.#unique, norm, true),
        ]);
      if (this.#unique.record.ready) await this.#reportConflict(norm, owners);
    });
  }

  /** Checks that each value in the list of shared values has several owners. */
  async checkShared(): Promise<void> {
    await this.#each(severalRange(this.#unique), async (norm) => {
      const row = await this.#survey.get(UNIQUE_TABLE.name, ownersRowKey(this.#unique, norm));
      if (row && problemOf(row)) return;
      const owners = parseOwners(row);
      if (owners.isTruncated || owners.ids.length > 1) return;
      await this.#report(norm, "a row says that it is several entries', and it is not; repair removes it", [
        ...this.#ownersGuard(norm, owners),
        severalStep(this.#unique, norm, false),
      ]);
    });
  }

  /** Checks that every entry is an owner of its values. */
  async checkEntries(): Promise<void> {
    const survey = this.#survey;
    await survey.forEachBatch(MASTER_TABLE.name, false, async (ids, rows) => {
      const wanted: { readonly id: Buffer; readonly row: Buffer; readonly norm: Buffer }[] = [];
      for (const [i, id] of ids.entries()) {
        if (id.length !== UUID_BYTES || survey.unreadable.has(idText(id))) continue;
        for (const norm of (await this.#valuesOf(id, rows[i]!)).values()) wanted.push({ id, row: rows[i]!, norm });
      }
      const keys = wanted.map(({ norm }) => ownersRowKey(this.#unique, norm));
      const found = await survey.getMany(UNIQUE_TABLE.name, keys);
      for (const [i, { id, row, norm }] of wanted.entries()) {
        if (found[i] && problemOf(found[i])) continue;
        const owners = parseOwners(found[i]);
        if (owners.isTruncated || owners.ids.includes(idText(id))) continue;
        await this.#report(norm, `it is not said to be that of entry ${uuidText(id)}; repair says so`, [
          ...survey.guards(id, cellValue(row, MASTER.treeInfo, Q.version)),
          ...ownersSteps(this.#unique, norm, owners, [...owners.ids, idText(id)]),
        ]);
      }
    });
  }

  async #each(
    { from, to }: { readonly from: Buffer; readonly to: Buffer },
    look: (norm: Buffer, row: Buffer) => Promise<void>,
  ): Promise<void> {
    await this.#survey.forEachBatch(UNIQUE_TABLE.name, false, async (keys, rows) => {
      for (const [i, key] of keys.entries()) {
        if (key.compare(from) < 0 || key.compare(to) >= 0) continue;
        await look(Buffer.from(parseUniqueKey(key).norm!), rows[i]!);
      }
    });
  }

  /** Returns the owners in a row. Reports a row that cannot be read, and returns undefined. */
  async #readOwners(norm: Buffer, row: Buffer): Promise<Owners | undefined> {
    const problem = problemOf(row);
    if (!problem) return parseOwners(row);
    await this.#report(norm, `${problem}; repair makes the row anew`, [
      { table: UNIQUE_TABLE.name, key: ownersRowKey(this.#unique, norm), deleteRow: true },
    ]);
    return undefined;
  }

  /** Returns the owners that do not have the value, with their rows. */
  async #wrongOwners(
    norm: Buffer,
    { ids }: Owners,
  ): Promise<{ readonly id: Buffer; readonly row: Buffer | undefined }[]> {
    const keys = ids.map((id) => Buffer.from(id, 'latin1'));
    const rows: Rows = await this.#survey.getMany(MASTER_TABLE.name, keys);
    const wrong: { readonly id: Buffer; readonly row: Buffer | undefined }[] = [];
    for (const [i, id] of keys.entries()) {
      const row = rows[i];
      if (this.#survey.unreadable.has(idText(id))) continue;
      if (!row || !(await this.#valuesOf(id, row)).has(idText(norm))) wrong.push({ id, row });
    }
    return wrong;
  }

  async #reportWrongOwners(
    norm: Buffer,
    owners: Owners,
    wrong: readonly { readonly id: Buffer; readonly row: Buffer | undefined }[],
  ): Promise<void> {
    const survey = this.#survey;
    const gone = new Set(wrong.map(({ id }) => idText(id)));
    const names = wrong.map(({ id }) => uuidText(id)).join(', ');
    await this.#report(norm, `it is said to be that of ${names}, where it is not; repair takes that back`, [
      ...wrong.flatMap(({ id, row }) =>
        survey.guards(id, row && cellValue(row, MASTER.treeInfo, Q.version)).slice(0, 1),
      ),
      ...ownersSteps(
        this.#unique,
        norm,
        owners,
        owners.ids.filter((id) => !gone.has(id)),
      ),
    ]);
  }

  async #reportConflict(norm: Buffer, { ids }: Owners): Promise<void> {
    const { reader, context } = this.#survey;
    const inScope: string[] = [];
    for (const text of ids) {
      const id = Buffer.from(text, 'latin1');
      const { path } = await positionOf(reader, id, { id: NOBODY, to: undefined });
      if (isInScope(this.#unique, path, context.shared.suffixes)) inScope.push(uuidText(id));
    }
    if (inScope.length > 1)
      await this.#report(norm, `entries ${inScope.join(', ')} have it; change all but one of them`);
  }

  /** Returns the step that guards the owners of a value. */
  #ownersGuard(norm: Buffer, { bytes }: Owners): PlanStep[] {
    const [step] = ownersSteps(this.#unique, norm, { bytes, ids: [], isTruncated: false }, []);
    const { table, key, guards } = step!;
    return [{ table, key, guards: guards! }];
  }

  async #valuesOf(id: Buffer, row: Buffer): Promise<ReadonlyMap<string, Buffer>> {
    const { context, reader } = this.#survey;
    try {
      const draft = await implyingDraft(
        { store: reader, descriptions: context.descriptions },
        MASTER_TABLE.name,
        id,
        row,
      );
      const { filter } = this.#unique;
      return filter && !context.fits(filter, draft) ? new Map() : uniqueValues(this.#unique, draft);
    } catch (error) {
      // The entry has been changed while it was read.
      if (isReplacedError(error)) return new Map();
      throw error;
    }
  }

  #report(norm: Buffer, what: string, fix?: readonly PlanStep[]): Promise<void> {
    const { record, text } = this.#unique;
    const where = `constraint ${record.number}, ${shown(norm)}`;
    return this.#survey.report('unique', where, `a value that is to be unique (${text}): ${what}`, fix);
  }
}

const NOBODY = Buffer.alloc(0);

function problemOf(row: Buffer): string | undefined {
  const problem = rowProblem(row);
  if (problem) return problem;
  try {
    parseOwners(row);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}
