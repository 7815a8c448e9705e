import { NO_RIGHTS, RIGHTS, type RightSet, rightSet } from '../right.js';
import { type Aci, type AciPermission, AciSyntaxError, parseAci } from './aci-syntax.js';
import { TargetReader, type TranslatedTarget } from './aci-target.js';
import { type Approximation, BindReader } from './aci-who.js';
import { type AttributeBits, type Attributes, CHILDREN, ENTRY } from './attribute-bits.js';
import type { Origin, RuleDraft } from './element.js';
import { isSameName, type Name, type Place, parentOf, ROOT_NAME } from './place.js';
import type { Report } from './report.js';
import type { AciValue } from './source.js';
import { type RuleWho, toRuleWho, type WhoSet } from './who-set.js';
import type { RuleWords } from './words.js';

const WRITE = rightSet('add', 'delete', 'replace');
const VIEW_OF_SECRET = rightSet('read', 'compare');
const ATTRIBUTE_MEANINGS: Readonly<Record<string, RightSet>> = {
  read: rightSet('read'),
  search: rightSet('search'),
  compare: rightSet('compare'),
  write: WRITE,
};
const ENTRY_MEANINGS: Readonly<Record<string, RightSet>> = { delete: rightSet('remove'), proxy: rightSet('proxy') };
const ALL = ['read', 'search', 'compare', 'write', 'add', 'delete'];
/** Longest list of attributes in a filter for visibility: an entry without a readable attribute is hidden. */
const MAX_PRESENCE_TESTS = 20;
const MAX_TEXT = 100;

/** The parts of the rules for one permission of an aci. */
interface Parts {
  readonly kind: 'allow' | 'deny';
  readonly whos: readonly RuleWho[];
  readonly target: TranslatedTarget & { readonly place: Place };
  readonly rights: readonly string[];
  readonly origin: Origin;
}

interface ParsedAci {
  readonly aci: Aci;
  readonly entry: Name;
  readonly origin: Origin;
}

/** Translates `aci` values. As with rules, their order has no effect, and a denial overrides every grant. */
export class AciReader {
  readonly #words: RuleWords;
  readonly #bits: AttributeBits;
  readonly #report: Report;
  /** Entries with values that contain a denial and cannot be parsed. */
  readonly #unreadable: { entry: Name; line: number }[] = [];
  /** Attributes that some values deny to read. */
  #unreadableAttributes: Attributes = 0n;
  count = 0;

  constructor(words: RuleWords, bits: AttributeBits, report: Report) {
    this.#words = words;
    this.#bits = bits;
    this.#report = report;
  }

  /** Translates all values at once, because the visibility of an entry depends on the denials in other values. */
  read(values: readonly AciValue[]): RuleDraft[] {
    const found = values.flatMap((value) => this.#parse(value));
    for (const { aci, entry } of found)
      for (const { kind, rights } of aci.permissions)
        if (kind === 'deny' && rights.some((right) => right === 'read' || right === 'all'))
          this.#unreadableAttributes |=
            new TargetReader(this.#words, this.#bits).read(aci.targets, entry, 'more').attributes ?? 0n;
    const denied = this.#unreadable.map((value) => this.#denyEverything(value));
    return [
      ...found.flatMap(({ aci, entry, origin }) =>
        aci.permissions.flatMap((permission) => this.#permission(aci, permission, entry, origin)),
      ),
      ...denied,
    ];
  }

  #parse({ line, text, dn }: AciValue): ParsedAci[] {
    const entry = dn === '' ? ROOT_NAME : this.#words.name(dn);
    if ('why' in entry) {
      this.#report.add('left', line, `it stands at no entry that can be here: ${entry.why}`);
      return [];
    }
    try {
      const aci = parseAci(text);
      this.count++;
      return [{ aci, entry, origin: { line, text: `aci "${aci.name}"`.slice(0, MAX_TEXT) } }];
    } catch (error) {
      if (!(error instanceof AciSyntaxError)) throw error;
      const denies = /\bdeny\b/i.test(text);
      if (denies) this.#unreadable.push({ entry, line });
      const all = denies ? '; since it denies something, all is denied there' : '';
      this.#report.add('left', line, `it cannot be read: ${error.message}${all}`);
      return [];
    }
  }

  #denyEverything({ entry, line }: { entry: Name; line: number }): RuleDraft {
    return {
      kind: 'deny',
      place: { scope: 'subtree', name: entry },
      filters: [],
      attributes: this.#bits.everything,
      who: {},
      rights: rightSet(...RIGHTS),
      origin: { line, text: 'an aci that denies something and cannot be read' },
    };
  }

  #permission(aci: Aci, { kind, rights, bind }: AciPermission, entry: Name, origin: Origin): RuleDraft[] {
    const approximation: Approximation = kind === 'allow' ? 'less' : 'more';
    const reader = new BindReader(this.#words);
    const whos = reader.read(bind, approximation).flatMap((who) => this.#ruleWhos(who, approximation, origin));
    const target = new TargetReader(this.#words, this.#bits).read(aci.targets, entry, approximation);
    for (const why of [...reader.unsupported, ...target.unsupported])
      this.#report.add('left', origin.line, approximation === 'less' ? why : `${why}; it denies more for that`);
    const { place } = target;
    if (!place || whos.length === 0) return [];
    const named = rights.flatMap((right) => (right === 'all' ? ALL : [right]));
    const parts = { kind, whos, target: { ...target, place }, rights: named, origin };
    for (const right of named)
      if (!(right in ATTRIBUTE_MEANINGS || right in ENTRY_MEANINGS || right === 'add'))
        this.#report.add('left', origin.line, `no rule has the right '${right}'`);
    return [
      ...this.#attributeRules(parts),
      ...this.#seeRules(parts),
      ...this.#entryRules(parts),
      ...this.#createRules(parts),
    ];
  }

  #ruleWhos(who: WhoSet, approximation: Approximation, { line }: Origin): RuleWho[] {
    const plain = toRuleWho(who);
    if (plain) return [plain];
    this.#report.add(
      'left',
      line,
      `a rule has one 'not' alone${approximation === 'more' ? '; it denies more for that' : ''}`,
    );
    if (approximation === 'less') return [];
    return [toRuleWho({ ...who, nots: [] })!];
  }

  #makeDrafts(
    { kind, whos, target, origin }: Parts,
    attributes: Attributes,
    rights: RightSet,
    more: Partial<RuleDraft> = {},
  ) {
    if (attributes === 0n || rights === NO_RIGHTS) return [];
    const place: Place =
      target.place.scope === 'children' ? { ...target.place, scope: childScope(kind) } : target.place;
    if (target.place.scope === 'children') this.#reportScope(kind, origin);
    const { filters } = target;
    return whos.map((who) => ({ kind, who, place, filters, attributes, rights, origin, ...more }));
  }

  #reportScope(kind: string, { line }: Origin): void {
    const why = kind === 'allow' ? 'one level below it alone' : 'the entry itself, too';
    this.#report.add('less', line, `no rule is about all below an entry without the entry: this ${kind}s for ${why}`);
  }

  #attributeRules(parts: Parts): RuleDraft[] {
    const { kind, target, rights, origin } = parts;
    const set = rights.reduce((sum, right) => sum | (ATTRIBUTE_MEANINGS[right] ?? NO_RIGHTS), NO_RIGHTS);
    if (set === NO_RIGHTS) return [];
    if (kind === 'deny') return this.#denyRules(parts, set);
    if (target.attributes === undefined) {
      this.#report.add('left', origin.line, "it names no attributes ('targetattr'), and is about the entry alone");
      return [];
    }
    const secrets = target.attributes & this.#bits.secret;
    const unnamed = secrets & ~target.named;
    const password = unnamed & this.#bits.sum(this.#bits.password ? [this.#bits.password] : []);
    if (unnamed && set & (VIEW_OF_SECRET | WRITE)) this.#reportSecrets(unnamed, origin);
    const plain = this.#listable(parts, target.attributes & this.#bits.plain);
    const except = target.except & plain;
    if (except) this.#report.add('less', origin.line, 'what it leaves out no other line gives those whom it is for');
    return [
      ...this.#makeDrafts(parts, plain, set),
      ...this.#makeDrafts(parts, secrets & target.named, set & ~rightSet('search')),
      ...this.#makeDrafts(parts, password, set & WRITE),
      ...this.#makeDrafts(parts, except, set, { kind: 'deny' }),
    ];
  }

  #reportSecrets(unnamed: Attributes, { line }: Origin): void {
    const names = this.#bits.typesIn(unnamed).map(({ name }) => name);
    this.#report.add(
      'secrets',
      line,
      `nothing is given to be seen of secrets that it does not name: ${names.join(', ')}`,
    );
  }

  #listable({ origin }: Parts, attributes: Attributes): Attributes {
    if (this.#bits.words(attributes)) return attributes;
    this.#report.add('left', origin.line, 'no short list of attributes says what it is about');
    return 0n;
  }

  #denyRules(parts: Parts, set: RightSet): RuleDraft[] {
    const { plain, secret } = this.#bits;
    const given = parts.target.attributes ?? plain | secret;
    const isWide = this.#bits.words(given) !== undefined && !parts.target.except;
    if (!isWide)
      this.#report.add('less', parts.origin.line, 'it denies more attributes, since no short list says which');
    return this.#makeDrafts(parts, isWide ? given : plain | secret, set);
  }

  /** Rules for the right `see`: an entry is visible to a client that may read one of its attributes. */
  #seeRules(parts: Parts): RuleDraft[] {
    const { kind, target, rights, origin } = parts;
    if (!rights.includes('read')) return [];
    const { user } = this.#bits;
    const attributes = target.attributes ?? (kind === 'deny' ? this.#bits.plain : 0n);
    const see = rightSet('see');
    const named = attributes & this.#bits.named('objectClass')!;
    if (kind === 'deny') {
      if (!named) return [];
      if ((attributes & user) !== user)
        this.#report.add('less', origin.line, "whoever may not read 'objectClass' does not see the entry either");
      return this.#makeDrafts(parts, ENTRY, see);
    }
    if (named) return this.#makeDrafts(parts, ENTRY, see);
    const types = this.#bits.typesIn(attributes & this.#bits.plain & ~this.#unreadableAttributes);
    if (types.length === 0) return [];
    if (types.length > MAX_PRESENCE_TESTS) {
      this.#report.add('left', origin.line, "it is not told that the entry is seen: name 'objectClass', too");
      return [];
    }
    const present = types.map(({ name }) => `(${name}=*)`);
    const any = present.length === 1 ? present[0]! : `(|${present.join('')})`;
    return this.#makeDrafts(parts, ENTRY, see, { filters: [...target.filters, any] });
  }

  #entryRules(parts: Parts): RuleDraft[] {
    const { kind, target, rights } = parts;
    let set = rights.reduce((sum, right) => sum | (ENTRY_MEANINGS[right] ?? NO_RIGHTS), NO_RIGHTS);
    const { user } = this.#bits;
    const writesAll = rights.includes('write') && ((target.attributes ?? 0n) & user) === user && !target.except;
    if (kind === 'allow' && writesAll) set |= rightSet('rename');
    return this.#makeDrafts(parts, ENTRY, set);
  }

  /** Rules for the right `create`, which in Rowan belongs to the parent of the new entry. */
  #createRules(parts: Parts): RuleDraft[] {
    const { kind, target, rights, origin } = parts;
    if (!rights.includes('add')) return [];
    const { scope, name } = target.place;
    const create = rightSet('create');
    if (kind === 'deny') {
      if (target.filters.length > 0)
        this.#report.add('less', origin.line, 'it denies to make what its filter leaves out, too');
      const parent = parentOf(name);
      const above: Place[] = parent && parent.rdns.length > 0 ? [{ scope: 'base', name: parent }] : [];
      if (above.length > 0 && !isSameName(name, ROOT_NAME))
        this.#report.add('less', origin.line, 'it denies to make anything beside the entry, too');
      const places: Place[] = [
        ...above,
        { scope: scope === 'one' ? 'base' : scope === 'base' ? 'base' : 'subtree', name },
      ];
      return places.flatMap((place) => this.#makeDrafts(parts, CHILDREN, create, { place, filters: [] }));
    }
    if (target.filters.length > 0 || scope === 'base') {
      this.#report.add('left', origin.line, 'who may make an entry is told of its parent, whatever the entry is');
      return [];
    }
    const place: Place = { scope: scope === 'one' ? 'base' : 'subtree', name };
    return this.#makeDrafts(parts, CHILDREN, create, { place });
  }
}

function childScope(kind: string): Place['scope'] {
  return kind === 'allow' ? 'one' : 'subtree';
}
