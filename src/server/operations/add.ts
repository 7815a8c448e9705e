import { LdapError } from '../../ldap/ldap-error.js';
import type { PartialAttribute } from '../../ldap/ldap-types.js';
import { attributeKey } from '../../partition/model/draft.js';
import type { AddRequest } from '../../protocol/ldap-messages.js';
import type { Schema } from '../../schema/schema.js';
import { isPasswordAttribute } from '../passwords/password-hashing.js';
import { actorOf, OperationSource, requireConfidential, requireRightsFor } from '../request/access.js';
import type { Context } from '../request/context.js';
import { newEntryCheck } from '../request/password-change.js';
import { requireOwnPassword, runPasswordChange } from '../request/password-policy.js';
import { type Outcome, SUCCESS } from '../words/outcome.js';
import { refuseVirtual } from './search-virtual.js';

/** Add (RFC 4511 §4.7). */
export async function add(context: Context, request: AddRequest): Promise<Outcome> {
  const { services, controls } = context;
  requireRightsFor(context, 'add');
  if (request.attributes.length === 0)
    throw new LdapError('protocolError', 'an entry to add has at least one attribute, its objectClass');
  refuseRepeated(services.schema, request.attributes);
  const dn = services.schema.parseDn(request.dn);
  refuseVirtual(context, dn);
  const { manageDsaIT } = controls;
  if (!request.attributes.some((a) => isPasswordAttribute(services.schema, a.type))) {
    await services.partition.add(dn, request.attributes, actorOf(context), { manageDsaIT });
    return SUCCESS;
  }
  requireConfidential(context);
  return runPasswordChange(context, async () => {
    requireOwnPassword(context.session.identity);
    const completeNew = await newEntryCheck(context, dn, request.attributes);
    const attributes = await services.hashing.hashAttributes(request.attributes, [], new OperationSource(context));
    await services.partition.add(dn, attributes, actorOf(context), { manageDsaIT, completeNew });
    return SUCCESS;
  });
}

/** Refuses an attribute that is in the list twice, under whichever of its names (RFC 4511 §4.1.8). */
function refuseRepeated(schema: Schema, attributes: readonly PartialAttribute[]): void {
  const keys = new Set<string>();
  for (const { type } of attributes) {
    const description = schema.describe(type);
    if (!description) continue;
    const key = attributeKey(description);
    if (keys.has(key)) {
      const problem = `attribute '${description.text}' is given twice; give it once, with all its values`;
      throw new LdapError('attributeOrValueExists', problem);
    }
    keys.add(key);
  }
}
