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
import { nameText } from './place.js';
import type { Remark } from './report.js';
import type { LimitDraft } from './slapd-limits.js';

const MANAGE = rightSet('manage');
const WRITING = rightSet('add', 'delete', 'replace');
const MAX_TEXT = 180;

/** Drafts of the same kind (`allow` or `deny`) with the same `who`, place and filters. */
interface DraftGroup {
  readonly firstDraft: RuleDraft;
  /** The rights with the attributes that they apply to. Each element becomes a rule. */
  readonly grants: { attributes: Attributes; rights: RightSet }[];
  readonly sourceLines: Set<string>;
  readonly lineNumbers: Set<number>;
}

interface Rule {
  readonly name: string;
  readonly who: object;
  readonly to?: object;
  readonly allow?: readonly string[];
  readonly deny?: readonly string[];
}

/** Returns the text of a rules file: the rules in YAML, with the source lines and remarks as comments. */
export function formatRules(
  drafts: readonly RuleDraft[],
  limits: readonly LimitDraft[],
  remarks: readonly Remark[],
  bits: AttributeBits,
  fileComment: string,
): string {
  const nameCounts = new Map<string, number>();
  const rules: Rule[] = [];
  const comments: string[] = [];
  const shownTexts = new Set<string>();
  for (const group of groupDrafts(drafts, bits)) {
    const groupRemarks = remarks.filter(
      (one) => group.lineNumbers.has(one.line) && one.kind !== 'said' && !shownTexts.has(one.text),
    );
    const comment = [...group.sourceLines, ...groupRemarks.map(({ line, text }) => `not exact, line ${line}: ${text}`)];
    for (const { attributes, rights } of group.grants) {
      const rule = createRule(group.firstDraft, attributes, rights, bits, nameCounts);
      if (!rule) continue;
      rules.push(rule);
      comments.push(comment.map((line) => ` ${oneLine(line)}`).join('\n'));
      for (const { text } of groupRemarks) shownTexts.add(text);
      comment.length = group.sourceLines.size;
    }
  }
  return formatYaml(rules, comments, limits, fileComment);
}

function formatYaml(
  rules: readonly Rule[],
  comments: readonly string[],
  limits: readonly LimitDraft[],
  fileComment: string,
): string {
  const content = limits.length > 0 ? { rules, limits } : { rules };
  const document = new Document(content, { aliasDuplicateObjects: false });
  document.commentBefore = fileComment
    .split('\n')
    .map((line) => ` ${line}`)
    .join('\n');
  const ruleNodes = document.get('rules');
  if (isSeq(ruleNodes))
    ruleNodes.items.forEach((ruleNode, i) => {
      if (!isMap(ruleNode)) return;
      ruleNode.commentBefore = comments[i]!;
      for (const key of ['allow', 'deny']) {
        const rights = ruleNode.get(key);
        if (isSeq(rights)) rights.flow = true;
      }
    });
  return document.toString({ lineWidth: 0 });
}

function oneLine(text: string): string {
  const plain = text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '?');
  return plain.length <= MAX_TEXT ? plain : `${plain.slice(0, MAX_TEXT)}…`;
}

function groupDrafts(drafts: readonly RuleDraft[], bits: AttributeBits): DraftGroup[] {
  const groups = new Map<string, DraftGroup>();
  const sortedDrafts = [...drafts].sort((a, b) => a.origin.line - b.origin.line);
  for (const draft of sortedDrafts) {
    const { kind, who, place, filters, attributes, rights, origin, limitedGrant } = draft;
    const key = JSON.stringify([kind, who, place.scope, nameText(place.base), filters]);
    let group = groups.get(key);
    if (!group) {
      group = { firstDraft: draft, grants: [], sourceLines: new Set(), lineNumbers: new Set() };
      groups.set(key, group);
    }
    group.grants.push({ attributes, rights });
    const limitText = limitedGrant ? `; line ${limitedGrant.line} gives no more there` : '';
    group.sourceLines.add(`line ${origin.line}: ${origin.text}${limitText}`);
    group.lineNumbers.add(origin.line);
  }
  for (const { grants } of groups.values()) joinGrants(grants, bits);
  return [...groups.values()];
}

/** Merges grants with equal attributes or equal rights, and those of `entry` and `children` with the others. */
function joinGrants(grants: DraftGroup['grants'], bits: AttributeBits): void {
  const entry = takeGrant(grants, ENTRY);
  const children = takeGrant(grants, CHILDREN);
  for (let i = 0; i < grants.length; i++) {
    for (let j = i + 1; j < grants.length; j++) {
      const [a, b] = [grants[i]!, grants[j]!];
      const union = a.attributes | b.attributes;
      const canJoin = a.attributes === b.attributes || (a.rights === b.rights && bits.ruleWords(union) !== undefined);
      if (!canJoin) continue;
      grants[i] = { attributes: union, rights: a.rights | b.rights };
      grants.splice(j, 1);
      i = -1;
      break;
    }
  }
  const widest = grants.findIndex(({ attributes }) => (attributes & bits.plainBits) === bits.plainBits);
  const mainIndex = Math.max(widest, 0);
  for (const one of [entry, children]) {
    if (one.attributes === NO_ATTRIBUTES) continue;
    const mainGrant = grants[mainIndex];
    const canMix = mainGrant && (one.attributes === CHILDREN || ((mainGrant.rights ^ one.rights) & MANAGE) === 0);
    if (canMix)
      grants[mainIndex] = { attributes: mainGrant.attributes | one.attributes, rights: mainGrant.rights | one.rights };
    else grants.push(one);
  }
}

function takeGrant(grants: DraftGroup['grants'], bit: Attributes): { attributes: Attributes; rights: RightSet } {
  let rights = NO_RIGHTS;
  let foundBits = NO_ATTRIBUTES;
  for (let i = grants.length - 1; i >= 0; i--) {
    if (grants[i]!.attributes !== bit) continue;
    foundBits = bit;
    rights |= grants[i]!.rights;
    grants.splice(i, 1);
  }
  return { attributes: foundBits, rights };
}

function createRule(
  { kind, who, place, filters, origin, limitedGrant }: RuleDraft,
  attributes: Attributes,
  draftRights: RightSet,
  bits: AttributeBits,
  names: Map<string, number>,
): Rule | undefined {
  const rights = applicableRights(draftRights, attributes, bits);
  const attributeList = attributeWords(attributes, rights, bits);
  if (rights === NO_RIGHTS) return undefined;
  const to = {
    ...(place.base.rdns.length > 0 && { [place.scope]: nameText(place.base) }),
    ...(filters.length > 0 && { filter: filters.length === 1 ? filters[0] : `(&${filters.join('')})` }),
    ...(attributeList && { attributes: attributeList }),
  };
  const byText = origin.text.slice(origin.text.lastIndexOf(' by ') + 1);
  const text = limitedGrant ? `line ${origin.line} stops line ${limitedGrant.line}` : `line ${origin.line}, ${byText}`;
  const name = uniqueName(oneLine(text).trim(), names);
  return { name, who, ...(Object.keys(to).length > 0 && { to }), [kind]: rightWords(rights) };
}

/** Returns those of the rights that can apply to the attributes. */
function applicableRights(rights: RightSet, attributes: Attributes, bits: AttributeBits): RightSet {
  let applicable =
    (attributes & ENTRY ? ENTRY_RIGHTS : NO_RIGHTS) | (attributes & CHILDREN ? CHILDREN_RIGHTS : NO_RIGHTS);
  const types = bits.typesIn(attributes);
  if (types.length > 0) applicable |= ATTRIBUTE_RIGHTS & ~(types.every(isComputed) ? WRITING : NO_RIGHTS);
  return rights & applicable;
}

/** Returns the words of `attributes`. Undefined for the default: all but secrets, the entry, and its children. */
function attributeWords(attributes: Attributes, rights: RightSet, bits: AttributeBits): string[] | undefined {
  const types = attributes & ~ENTRY & ~CHILDREN;
  const coversWholly = (bit: Attributes, own: RightSet) => attributes & bit || (rights & own) === NO_RIGHTS;
  if (types === bits.plainBits && coversWholly(ENTRY, ENTRY_RIGHTS) && coversWholly(CHILDREN, CHILDREN_RIGHTS))
    return undefined;
  return bits.ruleWords(attributes);
}

function uniqueName(name: string, names: Map<string, number>): string {
  const count = (names.get(name) ?? 0) + 1;
  names.set(name, count);
  return count === 1 ? name : `${name} (${count})`;
}

function rightWords(rights: RightSet): string[] {
  const wordList: string[] = rightsIn(rights);
  for (const [word, members] of Object.entries(RIGHT_GROUPS)) {
    if (!members.every((member) => wordList.includes(member))) continue;
    wordList.splice(wordList.indexOf(members[0]!), 0, word);
    for (const member of members) wordList.splice(wordList.indexOf(member), 1);
  }
  return wordList;
}
