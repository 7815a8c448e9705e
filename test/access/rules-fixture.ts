import { createHash } from 'node:crypto';
import { expect } from 'chai';
import { CompiledAccess } from '../../src/access/compiled-access.js';
import { parseRules } from '../../src/access/parse-rules.js';
import type { Requester } from '../../src/access/requester.js';
import type { Rights } from '../../src/access/rights.js';
import { uuidText } from '../../src/partition/model/uuid.js';
import { type Fixture, type Random, SYSTEM } from '../partition/fixture.js';
import { groupsOf, type PlainAsker, type PlainEntry, type PlainRule } from './naive.js';
import { randomRule, SUFFIX } from './random-rules.js';

/** The same name has the same entryUUID in every directory. */
export function uuidOf(dn: string): string {
  const bytes = createHash('sha256').update(dn).digest().subarray(0, 16);
  bytes[6] = (bytes[6]! & 0x0f) | 0x40;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  return uuidText(bytes);
}

export async function fill(fixture: Fixture, entries: ReadonlyMap<string, PlainEntry>): Promise<void> {
  for (const { dn, values } of entries.values())
    if (dn !== SUFFIX)
      await fixture.add(
        dn,
        { ...Object.fromEntries([...values].map(([name, all]) => [name, [...all]])), entryUUID: uuidOf(dn) },
        SYSTEM,
      );
}

/** Rules that can apply: the others are refused by the file. */
export function validRules(random: Random, fixture: Fixture, count: number): PlainRule[] {
  const rules: PlainRule[] = [];
  while (rules.length < count) {
    const rule = randomRule(random, rules.length);
    if (parseRules(JSON.stringify({ rules: [rule] }), fixture.partition.schema).rules) rules.push(rule);
  }
  return rules;
}

export function compiledOf(fixture: Fixture, rules: readonly PlainRule[]): CompiledAccess {
  const { partition } = fixture;
  const parsed = parseRules(JSON.stringify({ rules }), partition.schema);
  expect(parsed.faults).to.deep.equal([]);
  const { compiler, reader } = partition.context;
  return new CompiledAccess(0, parsed.rules!, { suffixes: partition.suffixes, compiler, reader });
}

export async function rightsOf(
  fixture: Fixture,
  access: CompiledAccess,
  { dn, address, strength, mechanism = 'simple' }: PlainAsker,
  entries: ReadonlyMap<string, PlainEntry>,
): Promise<Rights> {
  const user = dn === undefined ? undefined : { id: (await fixture.read(dn)).id, dn: fixture.dn(dn) };
  const requester: Requester = { user, address, strength, confidential: strength > 0, mechanism: user && mechanism };
  const groups = dn === undefined ? [] : [...groupsOf(dn, entries.values())].map((group) => fixture.dn(group).norm);
  return access.entitle(requester, (group) => groups.some((norm) => norm.equals(group.norm))).rights;
}
