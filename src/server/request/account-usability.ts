import { rightSet } from '../../access/right.js';
import type { Hit } from '../../partition/read/sink.js';
import { encodeAccountUsability } from '../../protocol/controls/account-usability.js';
import { encodeControls } from '../../protocol/encode.js';
import { ControlOid } from '../../protocol/oids.js';
import { Writer } from '../../protocol/writer.js';
import { usabilityOf } from '../passwords/usability.js';
import { isOwn, requestRights } from './access.js';
import type { Context } from './context.js';

const MANAGE = rightSet('manage');

/**
 * Returns a function that encodes the account usability control of an entry with a password. Users get the control for
 * their own entry and for entries on which they have the right `manage`. The function returns undefined otherwise.
 */
export function accountUsability(context: Context): (hit: Hit) => Promise<Buffer | undefined> {
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
