import { NO_RIGHTS, RIGHTS, type RightSet, rightSet } from '../right.js';
import { type Aci, type AciPermission, AciSyntaxError, parseAci } from './aci-syntax.js';
import { TargetReader, type TranslatedTarget } from './aci-target.js';
import { type Approximation, BindReader } from './aci-who.js';
import { type AttributeBits, type Attributes, CHILDREN, ENTRY } from './attribute-bits.js';
import type { Origin, RuleDraft } from './element.js';
import { isSameName, type Name, type Place, parentName, ROOT_NAME } from './place.js';
import type { Report } from './report.js';
import type { AciValue } from './source.js';
import { type RuleWho, toRuleWho } from './who-set.js';
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
const ALL_RIGHTS = ['read', 'search', 'compare', 'write', 'add', 'delete'];
/** The most readable attributes whose presence a rule for the right `see` tests. */
const MAX_PRESENCE_TESTS = 20;
const MAX_TEXT = 100;

/** The translated parts of one permission of an aci. */
interface RuleParts {
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

/** Translates `aci` values (389-DS, OpenDJ). Their order has no effect, and a denial overrides every grant. */
export class AciReader {
  readonly #notation: RuleWords;
  readonly #bits: AttributeBits;
  readonly #report: Report;
  /** Entries with an `aci` value that denies something and cannot be parsed. Everything is denied there. */
  readonly #unreadableDenials: { entry: Name; line: number }[] = [];
  /** Attributes that some value denies to read. */
  #unreadableAttributes: Attributes = 0n;
  aciCount = 0;

  constructor(notation: RuleWords, bits: AttributeBits, report: Report) {
    this.#notation = notation;
    this.#bits = bits;
    this.#report = report;
  }

  /** Translates all values together, because denials in other values affect whether an entry is visible. */
  read(values: readonly AciValue[]): RuleDraft[] {
    const parsedAcis = values.flatMap((value) => this.#parse(value));
    for (const { aci, entry } of parsedAcis)
      for (const { kind, rights } of aci.permissions)
        if (kind === 'deny' && rights.some((right) => right === 'read' || right === 'all'))
          this.#unreadableAttributes |=
            new TargetReader(this.#notation, this.#bits).read(aci.targets, entry, 'more').attributes ?? 0n;
    const denials = this.#unreadableDenials.map((value) => this.#denyEverything(value));
    return [
      ...parsedAcis.flatMap(({ aci, entry, origin }) =>
        aci.permissions.flatMap((permission) => this.#permissionRules(aci, permission, entry, origin)),
      ),
      ...denials,
    ];
  }

  #parse({ line, text, dn }: AciValue): ParsedAci[] {
    const entry = dn === '' ? ROOT_NAME : this.#notation.toName(dn);
    if ('why' in entry) {
      this.#report.add('left', line, `it stands at no entry that can be here: ${entry.why}`);
      return [];
    }
    try {
      const aci = parseAci(text);
      this.aciCount++;
      return [{ aci, entry, origin: { line, text: `aci "${aci.name}"`.slice(0, MAX_TEXT) } }];
    } catch (error) {
      if (!(error instanceof AciSyntaxError)) throw error;
      const denies = /\bdeny\b/i.test(text);
      if (denies) this.#unreadableDenials.push({ entry, line });
      const denialRemark = denies ? '; since it denies something, all is denied there' : '';
      this.#report.add('left', line, `it cannot be read: ${error.message}${denialRemark}`);
      return [];
    }
  }

  #denyEverything({ entry, line }: { entry: Name; line: number }): RuleDraft {
    return {
      kind: 'deny',
      place: { scope: 'subtree', base: entry },
      filters: [],
      attributes: this.#bits.allBits,
      who: {},
      rights: rightSet(...RIGHTS),
      origin: { line, text: 'an aci that denies something and cannot be read' },
    };
  }

  #permissionRules(aci: Aci, { kind, rights, bind }: AciPermission, entry: Name, origin: Origin): RuleDraft[] {
    const approximation: Approximation = kind === 'allow' ? 'less' : 'more';
    const reader = new BindReader(this.#notation);
    const whos = reader.read(bind, approximation).map(toRuleWho);
    const target = new TargetReader(this.#notation, this.#bits).read(aci.targets, entry, approximation);
    for (const reason of [...reader.unsupportedReasons, ...target.unsupportedReasons])
      this.#report.add('left', origin.line, approximation === 'less' ? reason : `${reason}; it denies more for that`);
    const { place } = target;
    if (!place || whos.length === 0) return [];
    const rightNames = rights.flatMap((right) => (right === 'all' ? ALL_RIGHTS : [right]));
    const ruleParts = { kind, whos, target: { ...target, place }, rights: rightNames, origin };
    for (const right of rightNames)
      if (!(right in ATTRIBUTE_MEANINGS || right in ENTRY_MEANINGS || right === 'add'))
        this.#report.add('left', origin.line, `no rule has the right '${right}'`);
    return [
      ...this.#attributeRules(ruleParts),
      ...this.#seeRules(ruleParts),
      ...this.#entryRules(ruleParts),
      ...this.#createRules(ruleParts),
    ];
  }

  #makeDrafts(
    { kind, whos, target, origin }: RuleParts,
    attributes: Attributes,
    rights: RightSet,
    otherFields: Partial<RuleDraft> = {},
  ) {
    if (attributes === 0n || rights === NO_RIGHTS) return [];
    const place: Place =
      target.place.scope === 'children'
        ? { ...target.place, scope: kind === 'allow' ? 'one' : 'subtree' }
        : target.place;
    if (target.place.scope === 'children') this.#reportScope(kind, origin);
    const { filters } = target;
    return whos.map((who) => ({ kind, who, place, filters, attributes, rights, origin, ...otherFields }));
  }

  #reportScope(kind: string, { line }: Origin): void {
    const scopeText = kind === 'allow' ? 'one level below it alone' : 'the entry itself, too';
    this.#report.add(
      'less',
      line,
      `no rule is about all below an entry without the entry: this ${kind}s for ${scopeText}`,
    );
  }

  #attributeRules(ruleParts: RuleParts): RuleDraft[] {
    const { kind, target, rights, origin } = ruleParts;
    const set = rights.reduce((sum, right) => sum | (ATTRIBUTE_MEANINGS[right] ?? NO_RIGHTS), NO_RIGHTS);
    if (set === NO_RIGHTS) return [];
    if (kind === 'deny') return this.#denyRules(ruleParts, set);
    if (target.attributes === undefined) {
      this.#report.add('left', origin.line, "it names no attributes ('targetattr'), and is about the entry alone");
      return [];
    }
    const secrets = target.attributes & this.#bits.secretBits;
    const unnamedSecrets = secrets & ~target.namedAttributes;
    const password = unnamedSecrets & this.#bits.sum(this.#bits.passwordType ? [this.#bits.passwordType] : []);
    if (unnamedSecrets && set & (VIEW_OF_SECRET | WRITE)) this.#reportSecrets(unnamedSecrets, origin);
    const plain = this.#listable(ruleParts, target.attributes & this.#bits.plainBits);
    const except = target.exceptedAttributes & plain;
    if (except) this.#report.add('less', origin.line, 'what it leaves out no other line gives those whom it is for');
    return [
      ...this.#makeDrafts(ruleParts, plain, set),
      ...this.#makeDrafts(ruleParts, secrets & target.namedAttributes, set & ~rightSet('search')),
      ...this.#makeDrafts(ruleParts, password, set & WRITE),
      ...this.#makeDrafts(ruleParts, except, set, { kind: 'deny' }),
    ];
  }

  #reportSecrets(unnamed: Attributes, { line }: Origin): void {
    const secretNames = this.#bits.typesIn(unnamed).map(({ name }) => name);
    this.#report.add(
      'secrets',
      line,
      `nothing is given to be seen of secrets that it does not name: ${secretNames.join(', ')}`,
    );
  }

  #listable({ origin }: RuleParts, attributes: Attributes): Attributes {
    if (this.#bits.ruleWords(attributes)) return attributes;
    this.#report.add('left', origin.line, 'no short list of attributes says what it is about');
    return 0n;
  }

  #denyRules(ruleParts: RuleParts, set: RightSet): RuleDraft[] {
    const { plainBits, secretBits } = this.#bits;
    const deniedBits = ruleParts.target.attributes ?? plainBits | secretBits;
    const isListable = this.#bits.ruleWords(deniedBits) !== undefined && !ruleParts.target.exceptedAttributes;
    if (!isListable)
      this.#report.add('less', ruleParts.origin.line, 'it denies more attributes, since no short list says which');
    return this.#makeDrafts(ruleParts, isListable ? deniedBits : plainBits | secretBits, set);
  }

  /** Returns the rules for `see`: in the source, a client sees an entry if it may read one of its attributes. */
  #seeRules(ruleParts: RuleParts): RuleDraft[] {
    const { kind, target, rights, origin } = ruleParts;
    if (!rights.includes('read')) return [];
    const { userBits } = this.#bits;
    const attributes = target.attributes ?? (kind === 'deny' ? this.#bits.plainBits : 0n);
    const see = rightSet('see');
    const objectClassBits = attributes & this.#bits.bitsOfName('objectClass')!;
    if (kind === 'deny') {
      if (!objectClassBits) return [];
      if ((attributes & userBits) !== userBits)
        this.#report.add('less', origin.line, "whoever may not read 'objectClass' does not see the entry either");
      return this.#makeDrafts(ruleParts, ENTRY, see);
    }
    if (objectClassBits) return this.#makeDrafts(ruleParts, ENTRY, see);
    const types = this.#bits.typesIn(attributes & this.#bits.plainBits & ~this.#unreadableAttributes);
    if (types.length === 0) return [];
    if (types.length > MAX_PRESENCE_TESTS) {
      this.#report.add('left', origin.line, "it is not told that the entry is seen: name 'objectClass', too");
      return [];
    }
    const presenceTests = types.map(({ name }) => `(${name}=*)`);
    const presenceFilter = presenceTests.length === 1 ? presenceTests[0]! : `(|${presenceTests.join('')})`;
    return this.#makeDrafts(ruleParts, ENTRY, see, { filters: [...target.filters, presenceFilter] });
  }

  #entryRules(ruleParts: RuleParts): RuleDraft[] {
    const { kind, target, rights } = ruleParts;
    let set = rights.reduce((sum, right) => sum | (ENTRY_MEANINGS[right] ?? NO_RIGHTS), NO_RIGHTS);
    const { userBits } = this.#bits;
    const writesAll =
      rights.includes('write') && ((target.attributes ?? 0n) & userBits) === userBits && !target.exceptedAttributes;
    if (kind === 'allow' && writesAll) set |= rightSet('rename');
    return this.#makeDrafts(ruleParts, ENTRY, set);
  }

  /** Returns the rules for the right `create`. In Rowan this right applies to the parent of the new entry. */
  #createRules(ruleParts: RuleParts): RuleDraft[] {
    const { kind, target, rights, origin } = ruleParts;
    if (!rights.includes('add')) return [];
    const { scope, base } = target.place;
    const create = rightSet('create');
    if (kind === 'deny') {
      if (target.filters.length > 0)
        this.#report.add('less', origin.line, 'it denies to make what its filter leaves out, too');
      const parent = parentName(base);
      const parentPlaces: Place[] = parent && parent.rdns.length > 0 ? [{ scope: 'base', base: parent }] : [];
      if (parentPlaces.length > 0 && !isSameName(base, ROOT_NAME))
        this.#report.add('less', origin.line, 'it denies to make anything beside the entry, too');
      const places: Place[] = [
        ...parentPlaces,
        { scope: scope === 'one' ? 'base' : scope === 'base' ? 'base' : 'subtree', base },
      ];
      return places.flatMap((place) => this.#makeDrafts(ruleParts, CHILDREN, create, { place, filters: [] }));
    }
    if (target.filters.length > 0 || scope === 'base') {
      this.#report.add('left', origin.line, 'who may make an entry is told of its parent, whatever the entry is');
      return [];
    }
    const place: Place = { scope: scope === 'one' ? 'base' : 'subtree', base };
    return this.#makeDrafts(ruleParts, CHILDREN, create, { place });
  }
}
