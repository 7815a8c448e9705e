import { LdapError } from '../ldap/ldap-error.js';
import type { Modification } from '../ldap/ldap-types.js';
import type { LdifAdd, LdifControl, LdifDelete, LdifModify, LdifRename } from '../ldif/index.js';
import type { Partition, Target } from '../partition/index.js';
import type { Actor, WriteOptions } from '../partition/model/directory-types.js';
import type { Dn } from '../schema/schema-types.js';
import { CredentialReader } from '../server/passwords/credentials.js';
import { type ImportedPasswords, PasswordCounts } from './passwords.js';

export type ChangeRecord = LdifAdd | LdifDelete | LdifModify | LdifRename;

/** ManageDsaIT (RFC 3296). An import always treats referral objects as entries, with or without this control. */
const MANAGE_DSA_IT = '2.16.840.1.113730.3.4.2';

function checkControls(controls: readonly LdifControl[]): void {
  const unknownControl = controls.find((control) => control.critical && control.oid !== MANAGE_DSA_IT);
  if (unknownControl)
    throw new LdapError(
      'unavailableCriticalExtension',
      `control ${unknownControl.oid} is critical, and an import does not know it`,
    );
}

/**
 * Applies one change record and updates the counts. Throws `LdapError` when the directory refuses the record; then
 * nothing has changed. `attachedSteps`: further steps to commit with the change.
 */
export async function applyChange(
  partition: Partition,
  record: ChangeRecord,
  actor: Actor,
  passwords: ImportedPasswords,
  counts: PasswordCounts,
  attachedSteps?: WriteOptions['attached'],
): Promise<void> {
  const options = { manageDsaIT: true, attached: attachedSteps };
  checkControls(record.controls);
  const dn = partition.schema.parseDn(record.dn);
  switch (record.kind) {
    case 'add':
      await partition.add(dn, passwords.convertAdd(record.dn, record.attributes, counts), actor, options);
      return;
    case 'delete':
      return partition.delete(dn, actor, options);
    case 'modify':
      return modify(partition, dn, record, actor, passwords, counts, options);
    case 'modrdn': {
      const { newRdn, deleteOldRdn, newSuperior } = record;
      return partition.rename(dn, { newRdn, deleteOldRdn, newSuperior }, actor, options);
    }
  }
}

/** Applies a modify record with passwords. Each attempt converts anew: the stored passwords count, too. */
async function modify(
  partition: Partition,
  dn: Dn,
  { dn: dnText, changes }: LdifModify,
  actor: Actor,
  passwords: ImportedPasswords,
  counts: PasswordCounts,
  options: WriteOptions,
): Promise<void> {
  if (!passwords.hasPasswords(changes.map(({ attribute }) => attribute)))
    return partition.modify(dn, changes, actor, options);
  const credentials = new CredentialReader(partition.descriptions);
  let attemptCounts = new PasswordCounts();
  const modificationsFor = ({ row }: Target): readonly Modification[] => {
    attemptCounts = new PasswordCounts();
    return passwords.convertModify(dnText, changes, credentials.read(row).passwords, attemptCounts);
  };
  await partition.modify(dn, modificationsFor, actor, options);
  counts.add(attemptCounts);
}
