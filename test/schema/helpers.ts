import { expect } from 'chai';
import type { ResultName } from '../../src/ldap/ldap-error.js';
import { LdapError } from '../../src/ldap/ldap-error.js';
import { type CheckedAttribute, type MatchingRule, Schema } from '../../src/schema/index.js';

export const schema = Schema.load();

export function bytes(text: string): Buffer {
  return Buffer.from(text);
}

export function rule(name: string): MatchingRule {
  const found = schema.rule(name);
  if (!found) throw new Error(`no rule ${name}`);
  return found;
}

/** Runs `body`, which must throw an LdapError of this result whose message matches. */
export function refused(result: ResultName, message: RegExp, body: () => unknown): void {
  let error: unknown;
  try {
    body();
  } catch (caught) {
    error = caught;
  }
  expect(error, 'nothing was thrown').to.be.instanceOf(LdapError);
  const { result: got, message: text } = error as LdapError;
  expect(got, text).to.equal(result);
  expect(text).to.match(message);
}

/** Attributes of an entry from plain words. */
export function attributes(entry: Record<string, string | readonly string[]>): CheckedAttribute[] {
  return Object.entries(entry).map(([name, values]) => ({
    description: schema.requireDescription(name),
    values: (typeof values === 'string' ? [values] : values).map(bytes),
  }));
}
