import type { Modification } from '../../ldap/ldap-types.js';
import type { AttributeDescription, AttributeType } from '../../schema/schema-types.js';
import { EMPTY } from '../../store/row.js';
import type { Draft } from '../model/draft.js';
import type { WriteContext } from './context.js';

/**
 * Adds or removes the empty DN, which names no entry: the placeholder of references that a class requires. The server
 * adds it when it removes the last reference (`isSettlement`). It goes with every modification that adds a reference.
 */
export function settlePlaceholders(
  context: WriteContext,
  draft: Draft,
  modifications: readonly Modification[],
  isSettlement = false,
): void {
  const { schema, shared } = context;
  const relevant = modifications.filter(
    ({ operation, attribute }) =>
      isSettlement || (operation === 'add' && attribute.values.some(({ length }) => length > 0)),
  );
  for (const text of new Set(relevant.map(({ attribute }) => attribute.type))) {
    const description = schema.requireDescription(text);
    const { type } = description;
    if (!shared.references.has(type)) continue;
    if (isSettlement && draft.ofType(type).length === 0 && isRequiredType(context, draft, type))
      draft.append(schema.requireDescription(type.name), type.name, [EMPTY]);
    else removePlaceholder(draft, description);
  }
}

/** Removes the empty DN if the attribute has another value. */
export function removePlaceholder(draft: Draft, description: AttributeDescription): void {
  const attribute = draft.get(description);
  const values = attribute?.values.filter(({ bytes }) => bytes.length > 0) ?? [];
  if (attribute && values.length > 0 && values.length < attribute.values.length) draft.set({ ...attribute, values });
}

export function isRequiredType({ schema }: WriteContext, draft: Draft, type: AttributeType): boolean {
  const classes = draft.get(schema.requireDescription('objectClass'))?.values ?? [];
  return classes.some(({ bytes }) => schema.objectClass(bytes.toString('latin1'))?.must.has(type));
}
