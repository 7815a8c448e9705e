import type { PlanStep } from '../../../store/contract.js';
import { implyingDraft } from '../../model/implied.js';
import { isReplacedError } from '../../model/large.js';
import { MASTER_TABLE, UUID_BYTES } from '../../model/tables.js';
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
import { rowProblem } from './record.js';
import { printable, type Survey, versionOf } from './survey.js';

/**
 * Checks the rows with the owners of values under each uniqueness constraint, and that no two entries in the scope of a
 * constraint in force share a value. A constraint that is not yet in force may lack rows.
 */
export async function checkUnique(survey: Survey): Promise<void> {
  for (const unique of survey.values.constraints) {
    const uniqueCheck = new ConstraintCheck(survey, unique);
    await uniqueCheck.checkOwners();
    await uniqueCheck.checkSharedValues();
    if (unique.record.ready) await uniqueCheck.checkEntries();
  }
}

type MasterRows = readonly (Buffer | undefined)[];

/** An entry that is said to have a value, with its master row. */
interface Owner {
  readonly id: Buffer;
  readonly row: Buffer | undefined;
}

class ConstraintCheck {
  readonly #survey: Survey;
  readonly #unique: Constraint;

  constructor(survey: Survey, unique: Constraint) {
    this.#survey = survey;
    this.#unique = unique;
  }

  /** Checks that every owner has the value, and that at most one owner is in the scope. */
  async checkOwners(): Promise<void> {
    const isWhole = this.#survey.isFullyReadable(MASTER_TABLE.name);
    if (!isWhole) this.#survey.noteSkipped('unique values of no entry', MASTER_TABLE.name);
    await this.#forEachRow(ownersRange(this.#unique), async (norm, row) => {
      const owners = await this.#readOwners(norm, row);
      if (!owners || owners.isTruncated) return;
      const wrongOwners = isWhole ? await this.#wrongOwners(norm, owners) : [];
      if (wrongOwners.length > 0) return this.#reportWrongOwners(norm, owners, wrongOwners);
      if (owners.ids.length < 2) return;
      const sharedValueRow = await this.#survey.get(UNIQUE_TABLE.name, severalStep(this.#unique, norm, true).key);
      if (!sharedValueRow)
        await this.#report(norm, "it is several entries', and no row says so; repair puts it", [
          ...this.#ownersGuardSteps(norm, owners),
          severalStep(this.#unique, norm, true),
        ]);
      if (this.#unique.record.ready) await this.#reportConflict(norm, owners);
    });
  }

  /** Checks that the values listed as having several owners do have several. */
  async checkSharedValues(): Promise<void> {
    await this.#forEachRow(severalRange(this.#unique), async (norm) => {
      const row = await this.#survey.get(UNIQUE_TABLE.name, ownersRowKey(this.#unique, norm));
      if (row && ownersRowProblem(row)) return;
      const owners = parseOwners(row);
      if (owners.isTruncated || owners.ids.length > 1) return;
      await this.#report(norm, "a row says that it is several entries', and it is not; repair removes it", [
        ...this.#ownersGuardSteps(norm, owners),
        severalStep(this.#unique, norm, false),
      ]);
    });
  }

  /** Checks that every entry is an owner of its values. */
  async checkEntries(): Promise<void> {
    const survey = this.#survey;
    await survey.forEachBatch(MASTER_TABLE.name, false, async (ids, rows) => {
      const values: { readonly id: Buffer; readonly row: Buffer; readonly norm: Buffer }[] = [];
      for (const [i, id] of ids.entries()) {
        if (id.length !== UUID_BYTES || survey.unreadableIds.has(idText(id))) continue;
        for (const norm of (await this.#normsOf(id, rows[i]!)).values()) values.push({ id, row: rows[i]!, norm });
      }
      const keys = values.map(({ norm }) => ownersRowKey(this.#unique, norm));
      const ownerRows = await survey.getMany(UNIQUE_TABLE.name, keys);
      for (const [i, { id, row, norm }] of values.entries()) {
        if (ownerRows[i] && ownersRowProblem(ownerRows[i])) continue;
        const owners = parseOwners(ownerRows[i]);
        if (owners.isTruncated || owners.ids.includes(idText(id))) continue;
        await this.#report(norm, `it is not said to be that of entry ${uuidText(id)}; repair says so`, [
          ...survey.guards(id, versionOf(row)),
          ...ownersSteps(this.#unique, norm, owners, [...owners.ids, idText(id)]),
        ]);
      }
    });
  }

  async #forEachRow(
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

  /** Returns the owners in a row. Reports an unreadable row and returns undefined. */
  async #readOwners(norm: Buffer, row: Buffer): Promise<Owners | undefined> {
    const problem = ownersRowProblem(row);
    if (!problem) return parseOwners(row);
    await this.#report(norm, `${problem}; repair makes the row anew`, [
      { table: UNIQUE_TABLE.name, key: ownersRowKey(this.#unique, norm), deleteRow: true },
    ]);
    return undefined;
  }

  /** Returns those owners that do not have the value, with their rows. */
  async #wrongOwners(norm: Buffer, { ids }: Owners): Promise<Owner[]> {
    const keys = ids.map((id) => Buffer.from(id, 'latin1'));
    const rows: MasterRows = await this.#survey.getMany(MASTER_TABLE.name, keys);
    const wrongOwners: Owner[] = [];
    for (const [i, id] of keys.entries()) {
      const row = rows[i];
      if (this.#survey.unreadableIds.has(idText(id))) continue;
      if (!row || !(await this.#normsOf(id, row)).has(idText(norm))) wrongOwners.push({ id, row });
    }
    return wrongOwners;
  }

  async #reportWrongOwners(norm: Buffer, owners: Owners, wrong: readonly Owner[]): Promise<void> {
    const survey = this.#survey;
    const wrongIds = new Set(wrong.map(({ id }) => idText(id)));
    const rightIds = owners.ids.filter((id) => !wrongIds.has(id));
    const uuidList = wrong.map(({ id }) => uuidText(id)).join(', ');
    await this.#report(norm, `it is said to be that of ${uuidList}, where it is not; repair takes that back`, [
      ...wrong.flatMap(({ id, row }) => survey.guards(id, versionOf(row)).slice(0, 1)),
      ...ownersSteps(this.#unique, norm, owners, rightIds),
    ]);
  }

  async #reportConflict(norm: Buffer, { ids }: Owners): Promise<void> {
    const { reader, context } = this.#survey;
    const idsInScope: string[] = [];
    for (const text of ids) {
      const id = Buffer.from(text, 'latin1');
      const { path } = await positionOf(reader, id, { id: NOBODY, to: undefined });
      if (isInScope(this.#unique, path, context.shared.suffixes)) idsInScope.push(uuidText(id));
    }
    if (idsInScope.length > 1)
      await this.#report(norm, `entries ${idsInScope.join(', ')} have it; change all but one of them`);
  }

  #ownersGuardSteps(norm: Buffer, { bytes }: Owners): PlanStep[] {
    const [step] = ownersSteps(this.#unique, norm, { bytes, ids: [], isTruncated: false }, []);
    const { table, key, guards } = step!;
    return [{ table, key, guards: guards! }];
  }

  async #normsOf(id: Buffer, row: Buffer): Promise<ReadonlyMap<string, Buffer>> {
    const { context, reader } = this.#survey;
    try {
      const source = { store: reader, descriptions: context.descriptions };
      const draft = await implyingDraft(source, MASTER_TABLE.name, id, row);
      const { filter } = this.#unique;
      return filter && !context.fits(filter, draft) ? new Map() : uniqueValues(this.#unique, draft);
    } catch (error) {
      // The entry was changed during the read, so it is not judged.
      if (isReplacedError(error)) return new Map();
      throw error;
    }
  }

  #report(norm: Buffer, problem: string, fix?: readonly PlanStep[]): Promise<void> {
    const { record, text } = this.#unique;
    const place = `constraint ${record.number}, ${printable(norm)}`;
    return this.#survey.report('unique', place, `a value that is to be unique (${text}): ${problem}`, fix);
  }
}

const NOBODY = Buffer.alloc(0);

function ownersRowProblem(row: Buffer): string | undefined {
  const problem = rowProblem(row);
  if (problem) return problem;
  try {
    parseOwners(row);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}
