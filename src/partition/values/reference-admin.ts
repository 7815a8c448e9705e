import { LdapError } from '../../ldap/ldap-error.js';
import { namesEntries } from '../model/group-rows.js';
import { retryWithFreshState, type WriteContext } from '../write/context.js';

/** Sets the attributes whose values, and those of subtypes, follow the names of entries. */
export async function setReferences(context: WriteContext, attributes: readonly string[]): Promise<void> {
  const types = attributes.map((name) => context.schema.requireDescription(name).type);
  for (const type of types) {
    const refuse = (reason: string): never => {
      throw new LdapError('unwillingToPerform', `values of '${type.name}' cannot follow names: ${reason}`);
    };
    if (!namesEntries(type)) refuse('they are no DNs');
    if (!context.shared.indexes.ofType(type)?.isReady) refuse(`it needs an index; first: rowan index add ${type.name}`);
  }
  await context.references.settle();
  await retryWithFreshState(context, async () => {
    const { records } = context.shared.values;
    await context.shared.setValues({ ...records, references: types.map(({ oid }) => oid) });
  });
}
