import { hasOptions } from '../../../schema/entry-check.js';
import type { Schema } from '../../../schema/schema.js';
import type { AttributeDescription } from '../../../schema/schema-types.js';
import { parseStateOptions } from '../../../schema/state-options.js';
import { cellValue } from '../../../store/row.js';
import { isComputed } from '../../model/computed.js';
import { type Draft, type DraftAttribute, sortedAttributes, wideAttributeOf } from '../../model/draft.js';
import { isPassword } from '../../model/secrets.js';
import { MASTER, Q } from '../../model/tables.js';
import { uuidText } from '../../model/uuid.js';
import { ValueSet, valueKey } from '../../model/value-set.js';
import { type WideAttribute, wideAttributes, wideList } from '../../model/wide.js';
import { settingsStep } from '../../tree/shared-row.js';
import { type CheckedEntry, parsedDn, rewriteSteps } from './record.js';
import { printable, type Survey } from './survey.js';

const OBJECT_CLASS = '2.5.4.0';

/** A difference between an entry as it is stored and as the server writes it. */
interface Flaw {
  readonly invariant: string;
  /** What is wrong, and what repair does or the administrator has to do. Shows no secrets. */
  readonly message: string;
  /** Whether repair leaves it, because the administrator has to decide. */
  readonly isLeft?: boolean;
}

/**
 * Checks that an entry is stored as the server writes it. All flaws of an entry are one breach, under the invariant of
 * the first one: repair writes the row anew. Flaws that repair leaves are breaches of their own.
 */
export async function checkStoredForm(survey: Survey, entry: CheckedEntry): Promise<void> {
  const { id, row, draft: stored } = entry;
  const draft = stored.copy();
  const flaws: Flaw[] = [];
  const changedAttributes = new Set<string>();
  const passwords: Buffer[] = [];
  for (const storedAttribute of stored.attributes) {
    const { type } = storedAttribute.description;
    // A correction may have moved values of another attribute to this one.
    const attribute = flaws.length === 0 ? storedAttribute : draft.get(storedAttribute.description)!;
    if (isPassword(type)) for (const { bytes } of attribute.values) passwords.push(bytes);
    const flaw = correctAttribute(survey.context.schema, attribute, draft);
    if (flaw?.isLeft) await survey.report(flaw.invariant, uuidText(id), flaw.message);
    if (!flaw || flaw.isLeft) continue;
    flaws.push(flaw);
    changedAttributes.add(type.name);
  }
  if (passwords.length > 0) await survey.onPasswords?.(id, passwords);
  const uuidFlaw = correctUuid(survey.context.schema, id, draft);
  if (uuidFlaw) changedAttributes.add('entryUUID');
  const lastFlaw = uuidFlaw ?? (flaws.length === 0 ? wideFlaw(row, draft) : undefined);
  if (lastFlaw) flaws.push(lastFlaw);
  if (flaws.length === 0) return;
  const message = flaws.map((flaw) => flaw.message).join('; ');
  const fix = rewriteSteps(survey, { id, row, draft }, [...changedAttributes]);
  await survey.report(flaws[0]!.invariant, uuidText(id), message, fix);
}

/** Corrects an attribute in `draft`. Returns its first flaw; another one is found when that one is repaired. */
function correctAttribute(schema: Schema, attribute: DraftAttribute, draft: Draft): Flaw | undefined {
  const { type } = attribute.description;
  const wrongPlace = misplacement(schema, attribute);
  if (wrongPlace) return correctPlace(attribute, wrongPlace, draft);
  if (type.oid === OBJECT_CLASS) return correctClasses(schema, attribute, draft);
  return type.syntax.proper && correctSpelling(attribute, draft);
}

interface Misplacement {
  readonly invariant: string;
  readonly problem: string;
  /** The description that the values belong under. Undefined: they are not to be stored. */
  readonly target: AttributeDescription | undefined;
}

/** Returns why values are stored under a description that no write stores; undefined if they are not. */
function misplacement(schema: Schema, { description, text }: DraftAttribute): Misplacement | undefined {
  const { type, options } = description;
  if (isComputed(type))
    return { invariant: 'computed', problem: 'it is computed when it is read, and not stored', target: undefined };
  if (type.secret) {
    if (!hasOptions(description)) return undefined;
    // The option `binary` alone makes no separate attribute.
    const target = options.length === 0 ? schema.requireDescription(type.name) : undefined;
    return { invariant: 'secret', problem: 'secrets take no options', target };
  }
  const state = parseStateOptions(text);
  const target = state && !state.isDeleted ? schema.requireDescription(state.text) : undefined;
  if (type.operational && (target ?? description).options.length > 0)
    return { invariant: 'options', problem: 'operational attributes take no options', target: undefined };
  return state && { invariant: 'options', problem: 'the state options are those of another server', target };
}

/** Moves the values to where they belong, if they are missing there. Removes values that belong nowhere. */
function correctPlace({ description, text, values }: DraftAttribute, place: Misplacement, draft: Draft): Flaw {
  const { invariant, problem, target } = place;
  if (target && values.some(({ isPointer }) => isPointer)) {
    const remedy = 'repair leaves values over 64 KiB: add them without the options, and delete these';
    return { invariant, message: `${text}: ${problem}; ${remedy}`, isLeft: true };
  }
  draft.remove(description);
  if (!target) return { invariant, message: `${text}: ${problem}; repair removes ${values.length} values` };
  const { type } = description;
  const set = new ValueSet(draft.get(target) ?? { description: target, text: target.text, values: [] });
  for (const { bytes } of values) if (!type.singleValue || set.isEmpty) set.add(valueKey(type, bytes), bytes);
  draft.set(set.toAttribute());
  return { invariant, message: `${text}: ${problem}; repair keeps the values without them` };
}

/** Removes values that name no class of the schema if they are under an option. */
function correctClasses(schema: Schema, attribute: DraftAttribute, draft: Draft): Flaw | undefined {
  const { description, text, values } = attribute;
  const rightValues = values.filter(({ bytes }) => schema.objectClass(bytes.toString('latin1')));
  if (rightValues.length === values.length) return undefined;
  const wrongValue = values.find((value) => !rightValues.includes(value))!;
  const problem = `'${printable(wrongValue.bytes)}' of ${text} names no object class of the schema`;
  const invariant = 'objectClass';
  if (description.options.length === 0)
    return { invariant, message: `${problem}: define it, or take it from the entry`, isLeft: true };
  if (rightValues.length > 0) draft.set({ ...attribute, values: rightValues });
  else draft.remove(description);
  return { invariant, message: `${problem}; repair removes ${values.length - rightValues.length} such values` };
}

/** Writes values in the form in which they are stored, such as that of RFC 4514 for DNs. */
function correctSpelling(attribute: DraftAttribute, draft: Draft): Flaw | undefined {
  const { description, text } = attribute;
  const { proper } = description.type.syntax;
  const wrongValues: Buffer[] = [];
  const values = attribute.values.map((value) => {
    const bytes = value.isPointer ? value.bytes : proper!(value.bytes);
    if (bytes === value.bytes) return value;
    wrongValues.push(value.bytes);
    return { ...value, bytes };
  });
  if (wrongValues.length === 0) return undefined;
  draft.set({ ...attribute, values });
  const place = description.type.secret ? text : `'${printable(wrongValues[0]!)}' of ${text}`;
  const count = wrongValues.length === 1 ? 'a value is' : `${wrongValues.length} values are`;
  const problem = `${count} not in the proper form (DNs as RFC 4514 writes them, DER with nothing behind it)`;
  return { invariant: 'spelling', message: `${problem}, the first is ${place}; repair writes it so` };
}

/** Sets the attribute entryUUID to the key of the row. */
function correctUuid(schema: Schema, id: Buffer, draft: Draft): Flaw | undefined {
  const description = schema.requireDescription('entryUUID');
  const values = draft.get(description)?.values ?? [];
  const text = uuidText(id);
  if (values.length === 1 && values[0]!.bytes.toString('latin1').toLowerCase() === text) return undefined;
  draft.replace(description, description.text, [Buffer.from(text)]);
  return { invariant: 'id', message: 'attribute entryUUID is not the key of the master row; repair sets it' };
}

/** Checks the list of wide attributes: that value counts are right, and that new values get unused indexes. */
function wideFlaw(row: Buffer, draft: Draft): Flaw | undefined {
  const storedList = cellValue(row, MASTER.treeInfo, Q.wide);
  if (!storedList) return undefined;
  const wideByText = new Map(sortedAttributes(draft).map((attribute) => [attribute.text, wideAttributeOf(attribute)]));
  const listedAttributes = wideAttributes(row);
  const isRight = ({ text, nextIndex, valueCount: count }: WideAttribute) => {
    const attribute = wideByText.get(text);
    return attribute?.valueCount === count && attribute.nextIndex <= nextIndex;
  };
  if (listedAttributes.every(isRight) && wideList(listedAttributes).equals(storedList)) return undefined;
  const message = 'the list of attributes with very many values is not what the entry has; repair sets it';
  return { invariant: 'wide', message };
}

/** Checks that suffixes and administrator's DN have the form of RFC 4514. */
export async function checkSettings(survey: Survey): Promise<void> {
  const { schema, shared } = survey.context;
  const { suffixes, adminDn } = shared.settings;
  const properDn = (dn: string): string => parsedDn(schema, Buffer.from(dn))?.text ?? dn;
  const properSettings = { suffixes: suffixes.map(properDn), adminDn: properDn(adminDn) };
  const wrongDn = [...suffixes, adminDn].find((dn) => properDn(dn) !== dn);
  if (wrongDn === undefined) return;
  await survey.report('spelling', 'settings', `'${wrongDn}' is not written as RFC 4514 does; repair writes it so`, [
    settingsStep({ suffixes, adminDn }, properSettings),
  ]);
}
