import { formatChange, type LdifChange, LEFT_OUT } from '../../ldif/index.js';
import type { NumberedChange } from '../../partition/feed/change-reader.js';
import { INDEX_BYTES, largeQualifiers, type Partition } from '../../partition/index.js';
import { decodeBefore } from '../../partition/model/before-image.js';

export type ChangeSource = Pick<Partition, 'readById' | 'schema'>;

/** A change as an LDIF change record, and comment lines that tell which values it lacks: secret and long ones. */
export interface ToldChange {
  readonly change: LdifChange;
  readonly remarks: string;
}

/**
 * Returns a change as an LDIF change record (RFC 2849). Its values are those that the entry has now: a later change of
 * an attribute shows in an earlier one, too. An entry that is gone has none.
 */
export async function tellChange(source: ChangeSource, record: NumberedChange): Promise<ToldChange> {
  const { op } = record;
  const dn = record.dn.toString();
  if (op === 'delete') return { change: { kind: 'delete', dn }, remarks: '' };
  if (op === 'rename') return { change: tellRename(source, record, dn), remarks: '' };
  const entry = await source.readById(record.id);
  const longNames = new Set([...((entry && largeQualifiers(entry.row)) ?? [])].map((q) => q.slice(0, -INDEX_BYTES)));
  const leftOut: string[] = [];
  const told = (entry?.attributes ?? []).flatMap(({ description, type, values }) => {
    const isChanged = op !== 'modify' || record.attributes?.includes(type.name) === true;
    const isLeftOut = type.secret || longNames.has(description);
    if (isChanged && isLeftOut) leftOut.push(`${LEFT_OUT}${description}, ${type.secret ? 'secret' : 'long'}\n`);
    return isChanged && !isLeftOut ? { type: description, name: type.name, values } : [];
  });
  const remarks = leftOut.join('');
  if (op !== 'modify') return { change: { kind: 'add', dn, attributes: told }, remarks };
  const isGone = (name: string): boolean =>
    source.schema.attribute(name)?.secret === false && !entry?.attributes.some(({ type }) => type.name === name);
  const gone = entry ? (record.attributes ?? []).filter(isGone).map((type) => ({ type, values: [] })) : [];
  const changes = [...told, ...gone].map((attribute) => ({ operation: 'replace' as const, attribute }));
  return { change: { kind: 'modify', dn, changes }, remarks };
}

function tellRename({ schema }: ChangeSource, { dn, newDn, beforeImage }: NumberedChange, text: string): LdifChange {
  const { rdns } = schema.parseDnBytes(newDn ?? dn);
  const { info, attributes } = decodeBefore(beforeImage ?? Buffer.alloc(0));
  const oldTypes = schema.parseDnBytes(dn).rdns[0]!.avas.map(({ type }) => type);
  const isRemoved = ({ description, old }: (typeof attributes)[number]): boolean =>
    old.length > 0 && oldTypes.some((type) => type === schema.describe(description)?.type);
  const superior = rdns.slice(1).map((rdn) => rdn.text);
  return {
    kind: 'modrdn',
    dn: text,
    newRdn: rdns[0]!.text,
    deleteOldRdn: attributes.some(isRemoved),
    newSuperior: info.has('parentId') ? superior.join(',') : undefined,
  };
}

/** Returns the lines of a change record behind `changetype`; '' for a deletion. */
export function changeLines(change: LdifChange): string {
  const text = formatChange(change).toString('latin1');
  const start = /^changetype: .*\n/m.exec(text)!;
  return text.slice(start.index + start[0].length, -1);
}
