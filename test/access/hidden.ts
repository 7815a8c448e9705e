import type { Random } from '../partition/fixture.js';
import type { Naive, PlainAsker, PlainEntry } from './naive.js';
import { NAMES, PEOPLE, POINTERS, personDn, UNITS } from './random-rules.js';

/** No rule looks at these. */
export const LOOSE = ['description', 'mail', 'sn', 'telephonenumber'];

export type Entries = Map<string, PlainEntry>;

/** Another directory that differs from the first in what the asker may not see, and in nothing else. */
export function otherOf(entries: Entries, naive: Naive, asker: PlainAsker, random: Random): Entries {
  const other: Entries = new Map();
  for (const entry of entries.values()) {
    const seen = naive.onEntry(asker, entry, 'see');
    const isPerson = PEOPLE.includes(entry.dn);
    if (!seen && (isPerson || POINTERS.includes(entry.dn)) && entry.dn !== asker.dn && random.chance(0.5)) continue;
    const values = new Map(entry.values);
    for (const attribute of isPerson ? LOOSE : []) {
      const known = ['read', 'search', 'compare'].some((use) => naive.onAttribute(asker, entry, attribute, use));
      if (!seen || !known) values.set(attribute, [`other${random.int(3)}`]);
    }
    other.set(entry.dn, { dn: entry.dn, values });
  }
  const group = { objectClass: ['groupOfNames'], cn: ['secret'], member: PEOPLE };
  const secret = {
    dn: `cn=secret,${UNITS[2]}`,
    values: new Map(Object.entries(group).map(([k, v]) => [k.toLowerCase(), v])),
  };
  if (!naive.onEntry(asker, secret, 'see')) other.set(secret.dn, secret);
  for (let n = 0; n < 6; n++) {
    const dn = personDn(`new${n}`, n);
    const values = new Map(entries.get(PEOPLE[n % NAMES.length]!)!.values).set('cn', [`new${n}`]);
    const entry = { dn, values };
    if (!naive.onEntry(asker, entry, 'see')) other.set(dn, entry);
  }
  return other;
}
