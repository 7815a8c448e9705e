import { expect } from 'chai';
import { parse } from 'yaml';
import { translate } from '../../src/access/from-slapd/from-slapd.js';
import { parseRules } from '../../src/access/parse-rules.js';
import { Schema } from '../../src/schema/index.js';
import { rounds } from '../rounds.js';
import { type Random, repeat } from '../schema/random.js';
import { Naive, type PlainAsker, type PlainEntry, type PlainRule, parentOf } from './naive.js';
import { ALL_LEVELS, NaiveSlapd, type SlapdAtom, type SlapdBy, type SlapdLine, textOf } from './naive-slapd.js';

const schema = Schema.load();
const SUFFIX = 'dc=x,dc=y';
const [PEOPLE, GROUPS] = [`ou=a,${SUFFIX}`, `ou=b,${SUFFIX}`];
const PERSONS = [`cn=p,${PEOPLE}`, `cn=q,${PEOPLE}`, `cn=r,ou=c,${PEOPLE}`, `cn=s,${SUFFIX}`];
const GROUP_NAMES = [`cn=g,${GROUPS}`, `cn=h,${GROUPS}`];
const NAMES = [SUFFIX, PEOPLE, `ou=c,${PEOPLE}`, GROUPS, ...PERSONS, ...GROUP_NAMES, `cn=below,cn=p,${PEOPLE}`];
const PLACES = [SUFFIX, PEOPLE, `ou=c,${PEOPLE}`, GROUPS, PERSONS[0]!, GROUP_NAMES[0]!];
const ATTRIBUTES = ['cn', 'sn', 'description', 'owner', 'entryuuid', 'userpassword'];
const FILTERS = ['(description=d1)', '(!(description=d1))', '(sn=s1)'];
const ROOT: PlainEntry = { dn: '', values: new Map() };

const chance = (random: Random, percent: number): boolean => random.below(100) < percent;

function randomEntries(random: Random): Map<string, PlainEntry> {
  const entries = NAMES.map((dn): PlainEntry => {
    const values: [string, string[]][] = [['description', [`d${random.below(3)}`]]];
    if (chance(random, 70)) values.push(['sn', [`s${random.below(2)}`]]);
    if (chance(random, 70)) values.push(['owner', [random.pick(PERSONS)]]);
    if (GROUP_NAMES.includes(dn)) values.push(['member', PERSONS.filter(() => chance(random, 40))]);
    return { dn, values: new Map(values) };
  });
  return new Map(entries.map((entry) => [entry.dn, entry]));
}

/** Entries that might be made below another. */
function mightBe(parent: string, entries: ReadonlyMap<string, PlainEntry>): PlainEntry[] {
  const names = [`cn=new,${parent}`, ...NAMES.filter((dn) => parentOf(dn) === parent && dn !== parent)];
  return [...entries.values()].slice(0, 6).flatMap(({ values }) => names.map((dn) => ({ dn, values })));
}

function randomAtom(random: Random): SlapdAtom {
  const kind = random.pick([
    ...['*', '*', 'anonymous', 'users', 'users', 'self', 'self', 'dn.exact', 'dn.exact', 'dn.subtree'],
    ...['dn.children', 'dn.one', 'dn.regex', 'group.exact', 'group.exact', 'dnattr', 'peername.ip', 'ssf', 'set'],
  ]);
  switch (kind) {
    case 'group.exact':
      return { kind, value: random.pick(GROUP_NAMES) };
    case 'dnattr':
      return { kind, value: 'owner' };
    case 'peername.ip':
      return { kind, value: '10.0.0.1' };
    case 'ssf':
      return { kind, value: random.pick(['56', '128']) };
    case 'set':
      return { kind, value: 'this/x' };
    case 'dn.exact':
      return { kind, value: random.pick(PERSONS) };
  }
  return kind.startsWith('dn.') ? { kind, value: random.pick([SUFFIX, PEOPLE]) } : { kind };
}

const ODD_ACCESS = ['=rs', '=w', '=a', '=z', '=r', '+w', '+r', '-r', '=0', ''];

/** `odd`: with what is seldom written. */
function randomBy(random: Random, odd: boolean): SlapdBy {
  const who = [randomAtom(random), ...(chance(random, 15) ? [randomAtom(random)] : [])];
  const levels = ['none', 'none', 'auth', 'search', 'read', 'read', 'write', 'write', 'manage'];
  const access = odd && chance(random, 25) ? random.pick([...ODD_ACCESS, ...ALL_LEVELS]) : random.pick(levels);
  const control = odd && chance(random, 15) ? random.pick(['stop', 'continue', 'break'] as const) : '';
  return { who, access, control };
}

function randomLine(random: Random, odd: boolean): SlapdLine {
  const style = random.pick(['base', 'one', 'subtree', 'subtree', 'children', ...(odd ? ['regex'] : [])]);
  const attrs = [...ATTRIBUTES, 'name', '@person', 'entry', 'children'];
  return {
    ...(chance(random, 50) && { dn: { style, name: random.pick(PLACES) } }),
    ...(chance(random, 15) && { filter: random.pick(FILTERS) }),
    ...(chance(random, 35) && { attrs: [random.pick(attrs), ...(chance(random, 40) ? [random.pick(attrs)] : [])] }),
    ...(odd && chance(random, 5) && { values: true }),
    by: Array.from({ length: 1 + random.below(3) }, () => randomBy(random, odd)),
  };
}

interface Case {
  readonly text: string;
  readonly slapd: NaiveSlapd;
  readonly rowan: Naive;
  readonly entries: ReadonlyMap<string, PlainEntry>;
  readonly isExact: boolean;
  readonly isExactOfSecrets: boolean;
}

function randomCase(random: Random): Case {
  const entries = randomEntries(random);
  const odd = chance(random, 50);
  const lines = Array.from({ length: 1 + random.below(4) }, () => randomLine(random, odd));
  const text = lines.map(textOf).join('\n');
  const salt = random.below(1000);
  const thrown = (what: string): boolean =>
    [...`${what} ${salt}`].reduce((sum, c) => sum + c.charCodeAt(0), 0) % 2 === 0;
  const { yaml, remarks } = translate(text, schema);
  const { faults } = parseRules(yaml, schema);
  expect(faults, `${text}\n${yaml}`).to.deep.equal([]);
  const { rules } = parse(yaml) as { rules: PlainRule[] };
  const kinds = new Set(remarks.map(({ kind }) => kind));
  const isExact = !kinds.has('left') && !kinds.has('less');
  return {
    text: `${text}\n\n${yaml}\n${JSON.stringify(remarks, undefined, 1)}`,
    slapd: new NaiveSlapd(lines, entries, thrown),
    rowan: new Naive(rules, entries),
    entries,
    isExact,
    isExactOfSecrets: isExact && !remarks.some(({ kind, text }) => kind === 'secrets' && text.includes('userPassword')),
  };
}

const ON_ATTRIBUTE: Readonly<Record<string, string>> = {
  read: 'r',
  search: 's',
  compare: 'c',
  add: 'a',
  delete: 'z',
  replace: 'az',
  manage: 'm',
};

function has(privileges: ReadonlySet<string>, letters: string): boolean {
  return [...letters].every((letter) => privileges.has(letter));
}

const ASKERS: readonly PlainAsker[] = [undefined, ...PERSONS].flatMap((dn) => [
  { dn, address: '10.0.0.1', strength: 64 },
  { dn, address: '10.0.0.2', strength: 128 },
]);

/** Calls back with each right: whether slapd gives it for sure, whether it may, and whether the rules do. */
function eachRight(
  { slapd, rowan, entries }: Case,
  tell: (what: string, right: string, sure: boolean, may: boolean, given: boolean) => void,
): void {
  for (const asker of ASKERS) {
    const on = (entry: PlainEntry, attribute: string) => slapd.privileges(asker, entry, attribute);
    for (const entry of entries.values()) {
      const what = `${asker.dn} (${asker.address}) to ${entry.dn}`;
      const told = (right: string, sure: boolean, may = sure) =>
        tell(what, right, sure, may, rowan.onEntry(asker, entry, right));
      const own = on(entry, 'entry');
      const parent = on(entries.get(parentOf(entry.dn)) ?? ROOT, 'children');
      told('see', has(own, 'rs'));
      told('manage', has(own, 'm'));
      told('remove', has(own, 'z') && has(parent, 'z'));
      told('rename', has(own, 'az') && has(parent, 'az'));
      told('moveOut', has(own, 'az') && has(parent, 'z'));
      const below = on(entry, 'children');
      told('moveIn', has(below, 'a'));
      const made = mightBe(entry.dn, entries).map((child) => has(below, 'a') && has(on(child, 'entry'), 'a'));
      told('create', made.every(Boolean), made.some(Boolean));
      for (const attribute of ATTRIBUTES) {
        const privileges = on(entry, attribute);
        for (const [right, letters] of Object.entries(ON_ATTRIBUTE)) {
          const held = has(privileges, letters);
          if (attribute === 'userpassword' && right === 'search') continue;
          tell(`${what} ${attribute}`, right, held, held, rowan.onAttribute(asker, entry, attribute, right));
        }
      }
    }
  }
}

describe('random slapd access lines translated into rules', function () {
  this.timeout(600_000);

  it('rules from slapd never grant more than slapd, and grant the same where the report says exact', () => {
    const counts = { rounds: 0, exact: 0, given: 0, lost: 0 };
    repeat(rounds(60, 3000), (random) => {
      const one = randomCase(random);
      counts.rounds++;
      if (one.isExact) counts.exact++;
      eachRight(one, (what, right, sure, may, given) => {
        if (given && !sure) expect.fail(`${what}: '${right}' is more than slapd gives\n${one.text}`);
        const exact = what.endsWith('userpassword') ? one.isExactOfSecrets : one.isExact;
        if (exact && may && !given) expect.fail(`${what}: '${right}' is lost, and not told\n${one.text}`);
        if (given) counts.given++;
        else if (may) counts.lost++;
      });
    });
    // Neither nothing at all is given, nor is everything told to be inexact.
    expect(counts.exact * 10, `exact in ${JSON.stringify(counts)}`).to.be.greaterThan(counts.rounds);
    expect(counts.given, `given in ${JSON.stringify(counts)}`).to.be.greaterThan(counts.lost);
    if (process.env.ROWAN_TELL) console.log(JSON.stringify(counts));
  });
});
