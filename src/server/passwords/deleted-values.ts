import type { Modification } from '../../ldap/ldap-types.js';
import { clearText, isHashed, type PasswordMatcher, storedForm } from '../../password/index.js';
import type { Schema } from '../../schema/index.js';
import { isPasswordAttribute } from './password-hashing.js';

/**
 * Returns the changes with each clear password that they delete replaced by the stored value that the clear password
 * verifies against. `stored`: the credentials of the entry.
 */
export async function resolveDeletedPasswords(
  schema: Schema,
  changes: readonly Modification[],
  stored: readonly Buffer[],
  matches: PasswordMatcher,
): Promise<Modification[]> {
  const resolvedChanges: Modification[] = [];
  for (const change of changes) {
    const { operation, attribute } = change;
    if (operation !== 'delete' || !isPasswordAttribute(schema, attribute.type)) resolvedChanges.push(change);
    else {
      const values: Buffer[] = [];
      for (const value of attribute.values) values.push(await storedValue(value, stored, matches));
      resolvedChanges.push({ operation, attribute: { type: attribute.type, values } });
    }
  }
  return resolvedChanges;
}

/** Returns the stored value equal to `sent` or verified by it as a clear password, and `sent` when there is none. */
async function storedValue(sent: Buffer, stored: readonly Buffer[], matches: PasswordMatcher): Promise<Buffer> {
  const equal = equalHash(sent, stored);
  if (stored.includes(equal) || isHashed(sent)) return equal;
  return (await matches.findMatch(clearText(sent), stored)) ?? sent;
}

/** Returns the stored value whose `storedForm` is that of `sent`, and `sent` when there is none. */
export function equalHash(sent: Buffer, stored: readonly Buffer[]): Buffer {
  const exact = stored.find((value) => value.equals(sent));
  return exact ?? stored.find((value) => storedForm(value).equals(storedForm(sent))) ?? sent;
}
