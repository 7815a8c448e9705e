import { rightSet } from '../../access/right.js';
import type { Hit } from '../../partition/read/sink.js';
import { encodeAccountUsability } from '../../protocol/controls/account-usability.js';
import { encodeAttribute, encodeControls } from '../../protocol/encode.js';
import type { SearchRequest } from '../../protocol/ldap-messages.js';
import { ControlOid } from '../../protocol/oids.js';
import { Writer } from '../../protocol/writer.js';
import type { AttributeDescription } from '../../schema/schema-types.js';
import type { EntryExtras } from '../entry/reply-entry.js';
import type { Selection } from '../entry/selection.js';
import { usabilityOf } from '../passwords/usability.js';
import { chain, type Maybe } from '../words/maybe.js';
import { isOwn, requestRights } from './access.js';
import type { Context } from './context.js';
import { effectiveRights } from './effective-rights.js';
import { stateAttributes } from './state-attributes.js';

/** Returns the parts of a found entry that are not in its row; undefined: none. */
export type ExtrasReader = (hit: Hit) => Maybe<EntryExtras | undefined>;

const EMPTY = Buffer.alloc(0);
/** By how many spaces the DN of a suffix entry may be longer than the suffix. Spares other DNs the look at each. */
const SPACES = 32;
const MANAGE = rightSet('manage');

/** Returns the reader of extras for the controls and selected attributes of a search; undefined: no extras. */
export function extrasReader(
  context: Context,
  request: SearchRequest,
  { stateAttributes: selected, contextCsn }: Selection,
): Maybe<ExtrasReader | undefined> {
  return chain(extrasOf(context, request, selected), (readExtras) =>
    contextCsn ? withContextCsn(context, contextCsn, request.typesOnly, readExtras) : readExtras,
  );
}

/** Adds `contextCSN`, the greatest CSN of all changes, to suffix entries. */
function withContextCsn(
  { services: { partition, schema } }: Context,
  contextCsn: AttributeDescription,
  typesOnly: boolean,
  readExtras: ExtrasReader = () => undefined,
): ExtrasReader {
  const maxLength = Math.max(...partition.suffixes.map(({ text }) => text.length)) + SPACES;
  return (hit) => {
    const { dn, sight } = hit;
    const extras = readExtras(hit);
    if (dn.length > maxLength || (sight && !sight.all('read') && !sight.allows('read', contextCsn))) return extras;
    const { norm } = schema.parseDnBytes(dn);
    if (!partition.suffixes.some((suffix) => suffix.norm.equals(norm))) return extras;
    return Promise.all([extras, partition.feed.latest()]).then(([others, { csn }]) => {
      const writer = new Writer();
      if (others) writer.raw(others.attributes);
      if (csn) encodeAttribute(writer, { type: contextCsn.text, values: typesOnly ? [] : [Buffer.from(csn)] });
      return { controls: EMPTY, ...others, attributes: writer.take() };
    });
  };
}

function extrasOf(
  context: Context,
  request: SearchRequest,
  selected: Selection['stateAttributes'],
): Maybe<ExtrasReader | undefined> {
  const { effectiveRights: rights, accountUsability: usability } = context.controls;
  const states = selected.length > 0 ? stateAttributes(context, selected, request.typesOnly) : undefined;
  if (rights || usability) return extrasWithControls(context, request, states);
  return states && ((hit) => chain(states(hit), (extras) => extras && { ...extras, controls: EMPTY }));
}

async function extrasWithControls(
  context: Context,
  request: SearchRequest,
  states: ReturnType<typeof stateAttributes> | undefined,
): Promise<ExtrasReader | undefined> {
  const rights = await effectiveRights(context, request);
  const usability = context.controls.accountUsability ? accountUsability(context) : undefined;
  return async (hit) => {
    const state = await states?.(hit);
    const attributeParts = [state?.attributes ?? EMPTY, (await rights?.(hit)) ?? EMPTY];
    const controls = (await usability?.(hit)) ?? EMPTY;
    return { attributes: Buffer.concat(attributeParts), controls, replacedStates: state?.replacedStates };
  };
}

/**
 * Returns a function that encodes the account usability control of an entry with a password. Users get the control for
 * their own entry and for entries on which they have the right `manage`. The function returns undefined otherwise.
 */
function accountUsability(context: Context): (hit: Hit) => Promise<Buffer | undefined> {
  const { partition, credentialReader, policies, schema } = context.services;
  const rights = requestRights(context)?.rights;
  return async ({ id, dn }) => {
    const foundRow = await partition.findRow(schema.parseDn(dn.toString()));
    if (!foundRow?.id.equals(id)) return undefined;
    if (rights && !isOwn(context.session.identity, id) && !(rights.sightOf(foundRow).entryRights & MANAGE))
      return undefined;
    const credentials = credentialReader.read(foundRow.row);
    if (credentials.passwords.length === 0) return undefined;
    const policy = await policies.forBinds(id, credentials);
    const value = encodeAccountUsability(
      usabilityOf(credentials, policy, await partition.accountState(id), Date.now()),
    );
    const writer = new Writer();
    encodeControls(writer, [{ oid: ControlOid.accountUsability, critical: false, value }]);
    return Buffer.from(writer.take());
  };
}
