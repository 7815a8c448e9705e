import { LdapError } from '../ldap/error.js';
import type { Actor, View } from '../partition/types.js';
import type { AttributeType } from '../schema/types.js';
import type { Context } from './context.js';
import type { Services } from './services.js';
import type { Session } from './session.js';

/**
 * Who may do what (docs/server.md):
 *
 * | | anonymous | user | administrator |
 * | --- | --- | --- | --- |
 * | root DSE, cn=Subschema, bind, StartTLS, who am I | yes | yes | yes |
 * | search, compare | with `access.anonymous: read` | yes | yes |
 * | cn=Monitor | no | yes | yes |
 * | own password: compare, modify, password modify | – | yes | yes |
 * | add, modify, delete, modifyDN, any password | no | no | yes |
 *
 * Secrets are returned to nobody. What is refused is refused before anything is looked up, so that a refusal does not tell
 * whether an entry exists.
 */

/** Filter terms on secrets are Undefined for everybody: a filter reveals nothing that a read would not. */
export const VIEW: View = { hides: (type: AttributeType): boolean => type.secret };

function refuse(session: Session, what: string): never {
  const who = session.identity.kind === 'anonymous' ? 'anonymous clients may not' : 'only the administrator may';
  const remedy = session.identity.kind === 'anonymous' ? '; bind first' : '';
  throw new LdapError('insufficientAccessRights', `${who} ${what}${remedy}`);
}

/** For searching and comparing entries. */
export function requireRead(services: Services, session: Session): void {
  if (session.identity.kind === 'anonymous' && services.config.access.anonymous !== 'read')
    refuse(session, 'read entries');
}

export function requireBound(session: Session, what: string): void {
  if (session.identity.kind === 'anonymous') refuse(session, what);
}

export function requireAdmin(session: Session, what: string): void {
  if (session.identity.kind !== 'admin') refuse(session, what);
}

/** Whether the entry is the one that the session is bound as. */
export function isOwn(session: Session, id: Buffer | undefined): boolean {
  const { identity } = session;
  return identity.kind === 'user' && id !== undefined && identity.id.equals(id);
}

/** With `passwords.requireTls` passwords travel under TLS or within the machine only. */
export function requireConfidential({ services, transport }: Context): void {
  if (!services.config.passwords.requireTls || transport.confidential) return;
  throw new LdapError('confidentialityRequired', 'passwords are accepted under TLS only; use StartTLS or ldaps://');
}

export function actorOf(session: Session): Actor {
  return { dn: session.dn };
}
