import { isMap, isScalar, type Node } from 'yaml';
import { isComputed } from '../partition/model/computed.js';
import type { Schema } from '../schema/schema.js';
import type { AttributeType, Dn } from '../schema/schema-types.js';
import { didYouMean, printable } from '../schema/suggest.js';
import { type Field, type Fields, MarkedYaml, type RuleFault } from './marked-yaml.js';
import { EVERYTHING, readDns, TargetReader, WhoReader } from './parse-clauses.js';
import {
  ATTRIBUTE_RIGHTS,
  CHILDREN_RIGHTS,
  ENTRY_RIGHTS,
  NO_RIGHTS,
  RIGHT_WORDS,
  type Right,
  type RightSet,
  rightSet,
  rightsIn,
  rightsOfWord,
} from './right.js';
import {
  type AccessRule,
  type AccessRules,
  type AttributeSet,
  isServerSecret,
  type LimitRule,
  type Limits,
  type PolicyRule,
  type Who,
} from './rule.js';

export type { RuleFault } from './marked-yaml.js';

export interface ParsedRules {
  /** Undefined if the file has faults. */
  readonly rules: AccessRules | undefined;
  /** Sorted by line. */
  readonly faults: readonly RuleFault[];
}

const KEYS = ['rules', 'limits', 'passwordPolicies'];
const RULE_KEYS = ['name', 'who', 'to', 'allow', 'deny'];
const POLICY_KEYS = ['name', 'policy', 'to', 'group'];
const POLICY_TO_KEYS = ['subtree', 'filter'];
const MAX_RULES = 10_000;
const MAX_NAME = 200;
/** The largest value of each limit. 0 means no limit, except for `inFlight`, which starts at 1. */
const MAX_VALUES: Readonly<Record<Exclude<keyof Limits, 'timeLimit'>, number>> = {
  sizeLimit: 2_147_483_647,
  lookLimit: 2_147_483_647,
  pageSize: 2_147_483_647,
  inFlight: 1_000_000,
};
const MAX_SECONDS = 86_400;
const LIMIT_KEYS = ['name', 'who', 'sizeLimit', 'timeLimit', 'lookLimit', 'pageSize', 'inFlight'];
const UNIT_SECONDS: Readonly<Record<string, number>> = { '': 1, s: 1, m: 60, h: 3600, d: 86_400 };
/** Placeholder for a policy DN that has a fault. */
const NO_DN: Dn = { rdns: [], text: '', norm: Buffer.alloc(0) };

/** Parses a file of access rules (docs/access.md). */
export function parseRules(text: string, schema: Schema): ParsedRules {
  const yaml = new MarkedYaml(text);
  const rules = yaml.faults.length > 0 ? undefined : new RulesReader(yaml, schema).read();
  return yaml.faults.length > 0 ? { rules: undefined, faults: yaml.sortedFaults() } : { rules, faults: [] };
}

class RulesReader {
  readonly #yaml: MarkedYaml;
  readonly #who: WhoReader;
  readonly #target: TargetReader;
  readonly #schema: Schema;

  constructor(yaml: MarkedYaml, schema: Schema) {
    this.#yaml = yaml;
    this.#who = new WhoReader(yaml, schema);
    this.#target = new TargetReader(yaml, schema);
    this.#schema = schema;
  }

  read(): AccessRules {
    const { root } = this.#yaml;
    const fields: Fields = root ? this.#yaml.fields(root, 'the file', KEYS) : new Map();
    const rules = fields.get('rules');
    if (!rules && this.#yaml.faults.length === 0) {
      const remedy = "write 'rules:' and the rules below it, or 'rules: []' for nobody but the administrator";
      this.#yaml.fault(1, `there are no rules; ${remedy}`);
    }
    return {
      rules: this.#readItems(rules, 'rule', (node, name) => this.#readRule(node, name)),
      limits: this.#readItems(fields.get('limits'), 'limit', (node, name) => this.#readLimit(node, name)),
      passwordPolicies: this.#readItems(fields.get('passwordPolicies'), 'password policy', (node, name) =>
        this.#readPolicyRule(node, name),
      ),
    };
  }

  /** Parses the items of a list. The name of an item must be unique in the list. */
  #readItems<T>(
    field: Field | undefined,
    label: 'rule' | 'limit' | 'password policy',
    read: (node: Node, name: string) => T,
  ): readonly T[] {
    if (!field) return [];
    const items = this.#yaml.items(field, label === 'rule');
    if (items.length > MAX_RULES) {
      this.#yaml.fault(field.line, `'${field.key}' has ${items.length} items; at most ${MAX_RULES} are taken`);
      return [];
    }
    const lines = new Map<string, number>();
    const parsedItems: T[] = [];
    for (const [i, node] of items.entries()) {
      this.#yaml.subject = `${label} ${i + 1}`;
      parsedItems.push(read(node, this.#readName(node, label, label === 'limit' ? `limit ${i + 1}` : '', lines)));
    }
    this.#yaml.subject = '';
    return parsedItems;
  }

  /** Reads the name of an item. `defaultName`: the name of an unnamed item; '' if a name is required. */
  #readName(node: Node, label: string, defaultName: string, lines: Map<string, number>): string {
    const name = isMap(node) ? node.get('name', true) : undefined;
    if (!isMap(node) || !name) {
      if (defaultName !== '') return defaultName;
      if (isMap(node)) this.#yaml.fault(this.#yaml.line(node), "it has no name; add a 'name' that says what it is for");
      return '';
    }
    const line = this.#yaml.line(name);
    if (typeof name.value !== 'string' || !isValidName(name.value)) {
      this.#yaml.fault(line, `'name' has to be a text of one line and at most ${MAX_NAME} characters`);
      return '';
    }
    this.#yaml.subject = `${label} '${name.value}'`;
    const earlierLine = lines.get(name.value);
    if (earlierLine !== undefined)
      this.#yaml.fault(line, `line ${earlierLine} has a ${label} of this name; give each a name of its own`);
    else lines.set(name.value, line);
    return name.value;
  }

  #readRule(node: Node, name: string): AccessRule {
    const fields = this.#yaml.fields(node, 'a rule', RULE_KEYS);
    const line = this.#yaml.line(node);
    const who = this.#who.read(fields.get('who'), line);
    const target = fields.get('to');
    const faultCount = this.#yaml.faults.length;
    const to = target ? this.#target.read(target.value) : EVERYTHING;
    const attributeSet = this.#yaml.faults.length === faultCount ? to.attributes : undefined;
    const allow = this.#readRights(fields.get('allow'), attributeSet);
    const deny = this.#readRights(fields.get('deny'), attributeSet);
    if (!fields.has('allow') && !fields.has('deny'))
      this.#yaml.fault(line, "it allows nothing and denies nothing; add 'allow' or 'deny'");
    if (allow & deny) this.#faultBothWays(fields.get('deny')!, allow & deny);
    return { name, line, who, to, allow, deny };
  }

  #faultBothWays({ line }: Field, conflictingRights: RightSet): void {
    const rightNames = rightsIn(conflictingRights).join(', ');
    this.#yaml.fault(line, `'${rightNames}' is both allowed and denied; deny wins, so take it out of one`);
  }

  /** Parses rights and checks that they fit the attributes. `attributeSet`: undefined if it has faults. */
  #readRights(field: Field | undefined, attributeSet: AttributeSet | undefined): RightSet {
    if (!field) return NO_RIGHTS;
    let set = NO_RIGHTS;
    for (const { text, line } of this.#yaml.texts(field)) {
      const rights = rightsOfWord(text);
      if (!rights) {
        const remedy = didYouMean(text, RIGHT_WORDS) || `; there are ${RIGHT_WORDS.join(', ')}`;
        this.#yaml.fault(line, `'${printable(text)}' is no right${remedy}`);
        continue;
      }
      const misfit = attributeSet && misfitReason(text, rights, attributeSet);
      if (misfit !== undefined) this.#yaml.fault(line, misfit);
      set |= rightSet(...rights);
    }
    return set;
  }

  #readLimit(node: Node, name: string): LimitRule {
    const fields = this.#yaml.fields(node, 'a limit', LIMIT_KEYS);
    const line = this.#yaml.line(node);
    const field = fields.get('who');
    const who = this.#who.read(field, line);
    const entryKey = entryKeyOf(who);
    if (entryKey) this.#yaml.fault(field!.line, `a limit is for requests, not for entries; take '${entryKey}' away`);
    return { name, line, who, limits: this.#readLimits(fields, line) };
  }

  #readLimits(fields: Fields, line: number): Limits {
    const limits: { -readonly [K in keyof Limits]: Limits[K] } = {};
    for (const key of Object.keys(MAX_VALUES) as (keyof typeof MAX_VALUES)[]) {
      const field = fields.get(key);
      if (field) limits[key] = this.#yaml.wholeNumber(field, key === 'inFlight' ? 1 : 0, MAX_VALUES[key]) ?? 0;
    }
    const timeField = fields.get('timeLimit');
    if (timeField) limits.timeLimit = this.#readSeconds(timeField);
    if (Object.keys(limits).length === 0)
      this.#yaml.fault(line, 'it limits nothing; add sizeLimit, timeLimit, lookLimit, pageSize or inFlight');
    return limits;
  }

  #readSeconds({ line, value }: Field): number {
    const timeText = isScalar(value) ? String(value.value) : '';
    const match = /^(\d{1,9}) ?([smhd]?)$/.exec(timeText.trim());
    const seconds = match ? Number(match[1]) * UNIT_SECONDS[match[2]!]! : Number.NaN;
    if (seconds <= MAX_SECONDS) return seconds;
    this.#yaml.fault(
      line,
      `'timeLimit' has to be a number of seconds, or one like "30 s" or "5 m", up to a day; 0: no limit`,
    );
    return 0;
  }

  /** Parses the assignment of a password policy to accounts. */
  #readPolicyRule(node: Node, name: string): PolicyRule {
    const fields = this.#yaml.fields(node, 'a password policy', POLICY_KEYS);
    const line = this.#yaml.line(node);
    const to = fields.get('to');
    const group = fields.get('group');
    const { place, filters } = to ? this.#target.read(to.value, POLICY_TO_KEYS) : {};
    return {
      name,
      line,
      policy: this.#readPolicy(fields.get('policy'), line),
      ...(place && { subtrees: place.bases }),
      ...(filters && { filters }),
      ...(group && { groups: readDns(this.#yaml, this.#schema, group) }),
    };
  }

  #readPolicy(field: Field | undefined, line: number): Dn {
    if (!field) {
      this.#yaml.fault(line, "it names no policy; add 'policy', the DN of an entry of class pwdPolicy");
      return NO_DN;
    }
    const dns = readDns(this.#yaml, this.#schema, field);
    if (dns.length > 1) this.#yaml.fault(field.line, "'policy' has to be one DN");
    return dns[0] ?? NO_DN;
  }
}

function isValidName(text: string): boolean {
  return text !== '' && text.trim() === text && text.length <= MAX_NAME && !/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(text);
}

function entryKeyOf({ self, attribute, not = [] }: Who): string | undefined {
  if (self) return 'self';
  if (attribute) return 'attribute';
  return not.map(entryKeyOf).find((key) => key !== undefined);
}

const WRITING = rightSet('add', 'delete', 'replace');
const SEARCH = rightSet('search');

/** Returns the reason why no right that `right` stands for can apply to the attributes; undefined if one can. */
function misfitReason(right: string, rights: readonly Right[], target: AttributeSet): string | undefined {
  const wordRights = rightSet(...rights);
  const types = [...target.types, ...target.descriptions.map(({ type }) => type)];
  const hasAttributeGroups = target.includesUser || target.includesOperational;
  const grantable =
    (target.includesEntry ? ENTRY_RIGHTS : NO_RIGHTS) |
    (target.includesChildren ? CHILDREN_RIGHTS : NO_RIGHTS) |
    (hasAttributeGroups ? ATTRIBUTE_RIGHTS : types.reduce((sum, type) => sum | rightsOn(type), NO_RIGHTS));
  if (wordRights & grantable) return undefined;
  if (types.length === 0 && !hasAttributeGroups && !target.includesEntry && !target.includesChildren)
    return 'this never applies: the classes named have secrets alone; name them, such as userPassword';
  return misfitText(right, wordRights, types);
}

/** The rights that a rule can grant: secrets are not searchable, computed attributes are not writable. */
function rightsOn(type: AttributeType): RightSet {
  if (isServerSecret(type)) return NO_RIGHTS;
  return ATTRIBUTE_RIGHTS & ~(type.secret ? SEARCH : NO_RIGHTS) & ~(isComputed(type) ? WRITING : NO_RIGHTS);
}

function misfitText(right: string, set: RightSet, types: readonly AttributeType[]): string {
  if (!(set & ATTRIBUTE_RIGHTS)) {
    const [place, name] = set & CHILDREN_RIGHTS ? ['what comes below an entry', 'children'] : ['the entry', 'entry'];
    return `'${right}' is a right on ${place}; add '${name}' to attributes`;
  }
  if (types.length === 0)
    return `'${right}' is a right on attributes; add them to attributes, or "*" for all but secrets`;
  const labels = types.map(({ name }) => `'${name}'`).join(', ');
  if (types.some(isServerSecret)) return `this never applies: ${labels} is for the server alone`;
  if (types.some(({ secret }) => secret)) return `this never applies: nobody searches for secrets such as ${labels}`;
  return `this never applies: ${labels} is worked out when it is asked for, and cannot be written`;
}
