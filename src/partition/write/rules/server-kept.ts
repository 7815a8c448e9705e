import { LdapError } from '../../../ldap/ldap-error.js';
import type { AttributeType } from '../../../schema/schema-types.js';
import { chain } from '../../../store/maybe.js';
import { isComputed } from '../../model/computed.js';
import { generalizedTime } from '../../model/csn.js';
import type { Actor } from '../../model/directory-types.js';
import type { Draft } from '../../model/draft.js';
import { detachedRow } from '../../model/entry-cells.js';
import { ENTRY_UUID_OID } from '../../model/index-set.js';
import { textBytes } from '../../model/texts.js';
import { uuidTextBytes } from '../../model/uuid.js';
import type { Rule, WriteContext } from '../context.js';

/**
 * Refuses writes of attributes that only the server writes (RFC 4512 §4.1.2, NO-USER-MODIFICATION), in RDNs, too. Sets
 * entryUUID, entryCSN, times and names of actors.
 */
export const SERVER_KEPT: Rule = {
  name: 'server-kept attributes',

  checkRequest(_, { op, actor, changes, rdn }) {
    for (const {
      description: { type },
    } of changes) {
      if (isServerKept(type, actor)) return serverKeptError(type.name, 'be written');
      if (op === 'modify' && type.oid === ENTRY_UUID_OID)
        return new LdapError('constraintViolation', 'entryUUID is what the entry is known by and never changes');
    }
    const ava = rdn?.avas.find(({ type }) => isServerKept(type, actor));
    return ava && serverKeptError(ava.type.name, 'be chosen by a name');
  },

  checkChange(context, { id, actor, before, after, op, obstacle, completeNew }) {
    if (!after) return undefined;
    // With an obstacle the change fails, and nobody has to hash its passwords.
    if (!completeNew || obstacle)
      return { amend: (draft) => (before || op === 'restore' ? stampModify : stampCreate)(context, draft, actor, id) };
    return chain(completeNew({ id, row: detachedRow(after) }), (attributes) => ({
      amend: (draft) => {
        stampCreate(context, draft, actor, id);
        for (const { type, values } of attributes) {
          const description = context.schema.requireDescription(type);
          if (description.type.secret) draft.replace(description, type, values);
          else draft.setDefault(description, type, values[0]!);
        }
      },
    }));
  },
};

/** Whether the actor may not write the type. Computed attributes are never stored, also not for privileged actors. */
function isServerKept(type: AttributeType, actor: Actor): boolean {
  return type.noUserModification && (!actor.system || isComputed(type));
}

function serverKeptError(name: string, problem: string): LdapError {
  return new LdapError('constraintViolation', `attribute '${name}' is kept by the server and cannot ${problem}`);
}

function stampModify(context: WriteContext, draft: Draft, actor: Actor): void {
  setAttribute(context, draft, 'entryCSN', context.csn.nextCsnBytes(draft.valueText('entryCSN')));
  setAttribute(context, draft, 'modifyTimestamp', textBytes(generalizedTime(Date.now())));
  if (actor.dn) setAttribute(context, draft, 'modifiersName', textBytes(actor.dn));
}

function setAttribute({ schema }: WriteContext, draft: Draft, name: string, value: Buffer): void {
  draft.replace(schema.requireDescription(name), name, [value]);
}

/** Sets these attributes in a new entry. Keeps values from a privileged writer. */
function stampCreate(context: WriteContext, draft: Draft, actor: Actor, id: Buffer): void {
  const timeText = textBytes(generalizedTime(Date.now()));
  setDefault(context, draft, 'entryUUID', uuidTextBytes(id));
  setDefault(context, draft, 'entryCSN', context.csn.nextCsnBytes());
  setDefault(context, draft, 'createTimestamp', timeText);
  setDefault(context, draft, 'modifyTimestamp', timeText);
  if (actor.dn) {
    const actorDn = textBytes(actor.dn);
    setDefault(context, draft, 'creatorsName', actorDn);
    setDefault(context, draft, 'modifiersName', actorDn);
  }
}

function setDefault({ schema }: WriteContext, draft: Draft, name: string, value: Buffer): void {
  draft.setDefault(schema.requireDescription(name), name, value);
}
