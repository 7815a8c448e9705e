import { Document, isMap, isSeq } from 'yaml';
import { isComputed } from '../../partition/model/computed.js';
import {
  ATTRIBUTE_RIGHTS,
  CHILDREN_RIGHTS,
  ENTRY_RIGHTS,
  NO_RIGHTS,
  RIGHT_GROUPS,
  type RightSet,
  rightSet,
  rightsIn,
} from '../right.js';
import { type AttributeBits, type Attributes, CHILDREN, ENTRY, NO_ATTRIBUTES } from './attribute-bits.js';
import type { RuleDraft } from './element.js';
import { textOf } from './place.js';
import type { Remark } from './report.js';

const MANAGE = rightSet('manage');
const WRITING = rightSet('add', 'delete', 'replace');
const MAX_TEXT = 180;

/** Drafts of the same kind for the same `who`, place and filters. */
interface DraftGroup {
  readonly first: RuleDraft;
  /** Rights by attributes; each part becomes a rule. */
  readonly parts: { attributes: Attributes; rights: RightSet }[];
  readonly lines: Set<string>;
  readonly numbers: Set<number>;
}

interface Rule {
  readonly name: string;
  readonly who: object;
  readonly to?: object;
  readonly allow?: readonly string[];
  readonly deny?: readonly string[];
}

/** Writes a rules file. */
export function writeRules(
  drafts: readonly RuleDraft[],
  remarks: readonly Remark[],
  bits: AttributeBits,
  head: string,
): string {
  const names = new Map<string, number>();
  const rules: Rule[] = [];
  const comments: string[] = [];
  const toldTexts = new Set<string>();
  for (const group of grouped(drafts, bits)) {
    const about = remarks.filter(
      (one) => group.numbers.has(one.line) && one.kind !== 'said' && !toldTexts.has(one.text),
    );
    const comment = [...group.lines, ...about.map(({ line, text }) => `not exact, line ${line}: ${text}`)];
    for (const { attributes, rights } of group.parts) {
      const rule = ruleOf(group.first, attributes, rights, bits, names);
      if (!rule) continue;
      rules.push(rule);
      comments.push(comment.map((line) => ` ${oneLine(line)}`).join('\n'));
      for (const { text } of about) toldTexts.add(text);
      comment.length = group.lines.size;
    }
  }
  return yamlOf(rules, comments, head);
}

function yamlOf(rules: readonly Rule[], comments: readonly string[], head: string): string {
  const document = new Document({ rules }, { aliasDuplicateObjects: false });
  document.commentBefore = head
    .split('\n')
    .map((line) => ` ${line}`)
    .join('\n');
  const list = document.get('rules');
  if (isSeq(list))
    list.items.forEach((item, i) => {
      if (!isMap(item)) return;
      item.commentBefore = comments[i]!;
      for (const key of ['allow', 'deny']) {
        const rights = item.get(key);
        if (isSeq(rights)) rights.flow = true;
      }
    });
  return document.toString({ lineWidth: 0 });
}

function oneLine(text: string): string {
  const plain = text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '?');
  return plain.length <= MAX_TEXT ? plain : `${plain.slice(0, MAX_TEXT)}…`;
}

function grouped(drafts: readonly RuleDraft[], bits: AttributeBits): DraftGroup[] {
  const groups = new Map<string, DraftGroup>();
  const sorted = [...drafts].sort((a, b) => a.origin.line - b.origin.line);
  for (const draft of sorted) {
    const { kind, who, place, filters, attributes, rights, origin, limitedGrant } = draft;
    const key = JSON.stringify([kind, who, place.scope, textOf(place.name), filters]);
    let group = groups.get(key);
    if (!group) {
      group = { first: draft, parts: [], lines: new Set(), numbers: new Set() };
      groups.set(key, group);
    }
    group.parts.push({ attributes, rights });
    const why = limitedGrant ? `; line ${limitedGrant.line} gives no more there` : '';
    group.lines.add(`line ${origin.line}: ${origin.text}${why}`);
    group.numbers.add(origin.line);
  }
  for (const { parts } of groups.values()) joinParts(parts, bits);
  return [...groups.values()];
}

/** Merges parts with equal attributes or equal rights, and the parts of `entry` and `children` with the rest. */
function joinParts(parts: DraftGroup['parts'], bits: AttributeBits): void {
  const entry = takeParts(parts, ENTRY);
  const children = takeParts(parts, CHILDREN);
  for (let i = 0; i < parts.length; i++) {
    for (let j = i + 1; j < parts.length; j++) {
      const [a, b] = [parts[i]!, parts[j]!];
      const both = a.attributes | b.attributes;
      const joins = a.attributes === b.attributes || (a.rights === b.rights && bits.words(both) !== undefined);
      if (!joins) continue;
      parts[i] = { attributes: both, rights: a.rights | b.rights };
      parts.splice(j, 1);
      i = -1;
      break;
    }
  }
  const widest = parts.findIndex(({ attributes }) => (attributes & bits.plain) === bits.plain);
  const at = Math.max(widest, 0);
  for (const one of [entry, children]) {
    if (one.attributes === NO_ATTRIBUTES) continue;
    const main = parts[at];
    const mix = main && (one.attributes === CHILDREN || ((main.rights ^ one.rights) & MANAGE) === 0);
    if (mix) parts[at] = { attributes: main.attributes | one.attributes, rights: main.rights | one.rights };
    else parts.push(one);
  }
}

function takeParts(parts: DraftGroup['parts'], bit: Attributes): { attributes: Attributes; rights: RightSet } {
  let rights = NO_RIGHTS;
  let found = NO_ATTRIBUTES;
  for (let i = parts.length - 1; i >= 0; i--) {
    if (parts[i]!.attributes !== bit) continue;
    found = bit;
    rights |= parts[i]!.rights;
    parts.splice(i, 1);
  }
  return { attributes: found, rights };
}

function ruleOf(
  { kind, who, place, filters, origin, limitedGrant }: RuleDraft,
  attributes: Attributes,
  given: RightSet,
  bits: AttributeBits,
  names: Map<string, number>,
): Rule | undefined {
  const rights = applicableRights(given, attributes, bits);
  const words = attributeWords(attributes, rights, bits);
  if (rights === NO_RIGHTS) return undefined;
  const to = {
    ...(place.name.rdns.length > 0 && { [place.scope]: textOf(place.name) }),
    ...(filters.length > 0 && { filter: filters.length === 1 ? filters[0] : `(&${filters.join('')})` }),
    ...(words && { attributes: words }),
  };
  const by = origin.text.slice(origin.text.lastIndexOf(' by ') + 1);
  const text = limitedGrant ? `line ${origin.line} stops line ${limitedGrant.line}` : `line ${origin.line}, ${by}`;
  const name = uniqueName(oneLine(text).trim(), names);
  return { name, who, ...(Object.keys(to).length > 0 && { to }), [kind]: rightWords(rights) };
}

/** The rights that apply to the attributes. */
function applicableRights(rights: RightSet, attributes: Attributes, bits: AttributeBits): RightSet {
  let fits = (attributes & ENTRY ? ENTRY_RIGHTS : NO_RIGHTS) | (attributes & CHILDREN ? CHILDREN_RIGHTS : NO_RIGHTS);
  const types = bits.typesIn(attributes);
  if (types.length > 0) fits |= ATTRIBUTE_RIGHTS & ~(types.every(isComputed) ? WRITING : NO_RIGHTS);
  return rights & fits;
}

/** Undefined for the default of rules: all attributes except secrets, the entry, and its children. */
function attributeWords(attributes: Attributes, rights: RightSet, bits: AttributeBits): string[] | undefined {
  const types = attributes & ~ENTRY & ~CHILDREN;
  const isWhole = (bit: Attributes, own: RightSet) => attributes & bit || (rights & own) === NO_RIGHTS;
  if (types === bits.plain && isWhole(ENTRY, ENTRY_RIGHTS) && isWhole(CHILDREN, CHILDREN_RIGHTS)) return undefined;
  return bits.words(attributes);
}

function uniqueName(name: string, names: Map<string, number>): string {
  const count = (names.get(name) ?? 0) + 1;
  names.set(name, count);
  return count === 1 ? name : `${name} (${count})`;
}

function rightWords(rights: RightSet): string[] {
  const words: string[] = rightsIn(rights);
  for (const [word, parts] of Object.entries(RIGHT_GROUPS)) {
    if (!parts.every((part) => words.includes(part))) continue;
    words.splice(words.indexOf(parts[0]!), 0, word);
    for (const part of parts) words.splice(words.indexOf(part), 1);
  }
  return words;
}
