import { expect } from 'chai';
import type { LdapError } from '../../src/ldap/ldap-error.js';
import { prepareNumeric, preparePartExact, preparePartIgnore, prepareTelephone } from '../../src/schema/prepare.js';
import { checkDirectoryString } from '../../src/schema/syntax-text.js';
import { checkGeneralizedTime, normalizeGeneralizedTime } from '../../src/schema/time.js';
import { bytes, schema } from './helpers.js';
import { type Random, repeat } from './random.js';

/** Digits of a field, mostly in its range. */
function field(random: Random, most: number): string {
  return String(random.below(random.below(8) === 0 ? 100 : most + 1)).padStart(2, '0');
}

/** A time without its zone: fields from the hour on may be absent, a fraction may follow, and a byte may be wrong. */
function clock(random: Random): string {
  const fields = [12, 28, 23, 59, 60].map((most) => field(random, most)).slice(0, 3 + random.below(3));
  const fraction = random.pick(['', '', '.', ',', '.0', ',5', '.05', '.500', ',25000', '.a']);
  const text = `${random.pick(['2001', '0000', '9999', '1900'])}${fields.join('')}${fraction}`;
  if (random.below(6) > 0) return text;
  const at = random.below(text.length);
  return text.slice(0, at) + random.pick(['', 'x', '.', ' ', '+', '/', ':', '\u00b2']) + text.slice(at + 1);
}

/** `YYYYMMDDhhmmss` is checked by its fields where it ends in `Z`, and by an expression before any other zone. */
function sameByBothWays(time: string): void {
  const [short, long] = [`${time}Z`, `${time}+0000`].map(bytes) as [Buffer, Buffer];
  expect(checkGeneralizedTime(short), time).to.equal(checkGeneralizedTime(long));
  const form = normalizeGeneralizedTime(short);
  expect(form?.toString(), time).to.equal(normalizeGeneralizedTime(long)?.toString());
}

describe('fast paths of the schema', () => {
  it('a time of 15 characters with a fraction is not taken for a plain time', () => {
    const times: [string, string][] = [
      ['200102030430.0Z', '20010203043000'],
      ['2001020304.500Z', '20010203043000'],
      ['2001020304,250Z', '20010203041500'],
      ['20010203043.05Z', ''],
    ];
    for (const [time, form] of times) {
      expect(checkGeneralizedTime(bytes(time)) === undefined, time).to.equal(form !== '');
      expect(normalizeGeneralizedTime(bytes(time))?.toString() ?? '', time).to.equal(form);
    }
  });

  it('a time outside of the years 0 to 9999 in UTC is refused and has no normal form', () => {
    for (const time of ['00000101000000+0100', '99991231235959-0100']) {
      expect(checkGeneralizedTime(bytes(time)), time).to.equal('is before the year 0 or after 9999 in UTC');
      expect(normalizeGeneralizedTime(bytes(time)), time).to.equal(undefined);
    }
    for (const time of ['00000101000000-0100', '99991231235959+0100'])
      expect(checkGeneralizedTime(bytes(time)), time).to.equal(undefined);
  });

  it('the fast check of times gives the same results as the slow check', () => {
    repeat(10_000, (random) => sameByBothWays(clock(random)));
  });

  it('the fast preparation of ASCII parts gives the same forms as the slow preparation', () => {
    repeat(5000, (random) => {
      const part = random.text([' ', '  ', 'a', 'B', '9', '-', '\t', '\u007f'], 8);
      for (const where of ['initial', 'any', 'final'] as const) {
        for (const prepare of [preparePartIgnore, preparePartExact]) {
          const long = prepare(bytes(`${part}\u200b`), where)!;
          expect(prepare(bytes(part), where)!.equals(long), `${where} ${JSON.stringify(part)}`).to.equal(true);
        }
      }
    });
  });

  it('the fast preparation of ASCII numbers gives the same forms as the slow preparation', () => {
    repeat(5000, (random) => {
      const text = random.text([' ', '-', 'a', 'B', '9', '+', '\t', '\u007f'], 8);
      for (const prepare of [prepareNumeric, prepareTelephone]) {
        const long = prepare(bytes(`${text}\u200b`))!;
        expect(prepare(bytes(text))!.equals(long), JSON.stringify(text)).to.equal(true);
      }
    });
  });

  it('a short text is checked like a long text', () => {
    repeat(5000, (random) => {
      const text = random.below(2) === 0 ? random.bytes(6) : bytes(random.text(['a', 'é', '\u0000', '😀'], 6));
      if (text.length === 0) return;
      const long = Buffer.concat([Buffer.alloc(200, 'a'), text]);
      expect(checkDirectoryString(text), text.toString('hex')).to.equal(checkDirectoryString(long));
    });
  });

  it('duplicate values are found among few and among many values', () => {
    const description = schema.requireDescription('description');
    const others = Array.from({ length: 12 }, (_, i) => bytes(`other ${i}`));
    const told = (values: readonly Buffer[]): string => {
      try {
        schema.checkValues(description, values);
        return 'different';
      } catch (error) {
        return (error as LdapError).message;
      }
    };
    repeat(5000, (random) => {
      const values = Array.from({ length: 2 + random.below(6) }, () =>
        bytes(`${random.pick(['a', 'A', ' a', 'é', 'e\u0301'])}${random.pick(['', ' ', 'b', ' b', '  B', '\u00e0'])}`),
      );
      expect(told(values), values.join('|')).to.equal(told([...values, ...others]));
    });
  });

  it('object classes in any notation have the same class set', () => {
    repeat(2000, (random) => {
      const write = (name: string) => random.pick([name, name.toUpperCase(), schema.objectClass(name)!.oid]);
      const names = random.shuffle([
        'top',
        'person',
        'organizationalPerson',
        'inetOrgPerson',
        'posixAccount',
        'device',
      ]);
      const given = names.slice(random.below(5));
      const told = (): string => {
        const attributes = { objectClass: given.map(write), cn: ['x'], sn: ['x'], uid: ['x'] };
        try {
          const checked = Object.entries(attributes).map(([name, values]) => {
            return { description: schema.requireDescription(name), values: values.map(bytes) };
          });
          return schema.checkEntry(checked, schema.parseRdn('cn=x')).name;
        } catch (error) {
          return (error as LdapError).message;
        }
      };
      expect(told(), given.join(' ')).to.equal(told());
    });
  });
});
