import type { PlanStep } from '../../../store/contract.js';
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
import { corruption, readImplyingDraft } from './record.js';
import { printable, type Survey } from './survey.js';

/**
 * Checks the rows with the owners of values under each uniqueness constraint, and that no two entries in the scope of a
 * constraint in force share a value. A constraint that is not yet in force may lack rows.
 */
export async function checkUnique(survey: Survey): Promise<void> {
  for (const unique of survey.values.constraints) {
    const uniqueCheck = new ConstraintCheck(survey, unique);
    await uniqueCheck.checkRows();
    if (unique.record.ready) await uniqueCheck.checkEntries();
  }
}

/** An entry that has a value or is said to have it, with its master row. */
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

  /** Checks that every owner has the value, that shared values are listed, and that others are not. */
  async checkRows(): Promise<void> {
    const isWhole = this.#survey.isFullyReadable(MASTER_TABLE.name);
    if (!isWhole) this.#survey.noteSkipped('unique values of no entry', MASTER_TABLE.name);
    const range = { from: ownersRange(this.#unique).from, to: severalRange(this.#unique).to };
    const look = async (keys: readonly Buffer[], rows: readonly (Buffer | undefined)[]): Promise<void> => {
      for (const [i, key] of keys.entries()) {
        const { norm, hasSeveral } = parseUniqueKey(key);
        if (hasSeveral) await this.#checkListed(Buffer.from(norm!));
        else await this.#checkOwners(Buffer.from(norm!), rows[i]!, isWhole);
      }
    };
    await this.#survey.forEachBatch(UNIQUE_TABLE.name, false, look, range);
  }

  async #checkOwners(norm: Buffer, row: Buffer, isWhole: boolean): Promise<void> {
    const unreadable = corruption(() => parseOwners(row));
    if (unreadable)
      return this.#report(norm, `${unreadable}; repair makes the row anew`, [
        { table: UNIQUE_TABLE.name, key: ownersRowKey(this.#unique, norm), deleteRow: true },
      ]);
    const owners = parseOwners(row);
    if (owners.isTruncated) return;
    const wrong = isWhole ? await this.#wrongOwners(norm, owners) : [];
    if (wrong.length > 0) {
      const wrongIds = wrong.map(({ id }) => idText(id));
      const problem = `it is said to be that of ${wrong.map(({ id }) => uuidText(id)).join(', ')}, where it is not`;
      const rightIds = owners.ids.filter((id) => !wrongIds.includes(id));
      return this.#report(norm, `${problem}; repair takes that back`, this.#setOwners(norm, owners, rightIds, wrong));
    }
    if (owners.ids.length < 2) return;
    if (!(await this.#survey.get(UNIQUE_TABLE.name, severalStep(this.#unique, norm, true).key)))
      await this.#report(
        norm,
        "it is several entries', and no row says so; repair puts it",
        this.#setOwners(norm, owners, owners.ids),
      );
    if (this.#unique.record.ready) await this.#reportConflict(norm, owners);
  }

  /** Checks that a value that is listed as having several owners does have several. */
  async #checkListed(norm: Buffer): Promise<void> {
    const row = await this.#survey.get(UNIQUE_TABLE.name, ownersRowKey(this.#unique, norm));
    if (corruption(() => parseOwners(row))) return;
    const owners = parseOwners(row);
    if (owners.isTruncated || owners.ids.length > 1) return;
    const problem = "a row says that it is several entries', and it is not; repair removes it";
    await this.#report(norm, problem, this.#setOwners(norm, owners, owners.ids));
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
      for (const [i, entry] of values.entries()) {
        const { id, norm } = entry;
        if (corruption(() => parseOwners(ownerRows[i]))) continue;
        const owners = parseOwners(ownerRows[i]);
        if (owners.isTruncated || owners.ids.includes(idText(id))) continue;
        const fix = this.#setOwners(norm, owners, [...owners.ids, idText(id)], [entry]);
        await this.#report(norm, `it is not said to be that of entry ${uuidText(id)}; repair says so`, fix);
      }
    });
  }

  /** Returns those owners that do not have the value, with their rows. */
  async #wrongOwners(norm: Buffer, { ids }: Owners): Promise<Owner[]> {
    const keys = ids.map((id) => Buffer.from(id, 'latin1'));
    const rows = await this.#survey.getMany(MASTER_TABLE.name, keys);
    const wrongOwners: Owner[] = [];
    for (const [i, id] of keys.entries()) {
      const row = rows[i];
      if (this.#survey.unreadableIds.has(idText(id))) continue;
      if (!row || !(await this.#normsOf(id, row)).has(idText(norm))) wrongOwners.push({ id, row });
    }
    return wrongOwners;
  }

  /** Returns the steps that set the owners of a value, and whether it is listed. `changed`: owners that come or go. */
  #setOwners(norm: Buffer, owners: Owners, ids: readonly string[], changed: readonly Owner[] = []): PlanStep[] {
    const listed = severalStep(this.#unique, norm, ids.length > 1);
    const steps = ownersSteps(this.#unique, norm, owners, ids).filter(({ key }) => !key.equals(listed.key));
    // The guard of the shared row is needed once.
    const guards = changed.flatMap(({ id, row }, i) => this.#survey.guards(id, row).slice(0, i === 0 ? 2 : 1));
    return [...guards, ...steps, listed];
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

  /** Returns the values of an entry under the constraint. */
  async #normsOf(id: Buffer, row: Buffer): Promise<ReadonlyMap<string, Buffer>> {
    const { filter } = this.#unique;
    const draft = await readImplyingDraft(this.#survey, id, row);
    const isCovered = draft && (!filter || this.#survey.context.fits(filter, draft));
    return isCovered ? uniqueValues(this.#unique, draft) : new Map();
  }

  #report(norm: Buffer, problem: string, fix?: readonly PlanStep[]): Promise<void> {
    const { record, text } = this.#unique;
    const place = `constraint ${record.number}, ${printable(norm)}`;
    return this.#survey.report('unique', place, `a value that is to be unique (${text}): ${problem}`, fix);
  }
}

const NOBODY = Buffer.alloc(0);
