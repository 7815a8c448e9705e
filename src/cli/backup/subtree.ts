import type { Modification, PartialAttribute } from '../../ldap/ldap-types.js';
import { formatChange, formatComment, formatEntry, VERSION_LINE } from '../../ldif/index.js';
import { UNLIMITED_SEARCH } from '../../partition/index.js';
import type { Entry } from '../../partition/model/directory-types.js';
import type { Node } from '../../partition/model/tables.js';
import type { Dn } from '../../schema/schema-types.js';
import { CliError } from '../exit.js';
import { OutputStream } from '../export/output.js';
import { ANY_ENTRY } from '../export/walk.js';
import type { OpenDirectory } from '../open-directory.js';

/** How many records an LDIF file of a subtree has. */
export interface SubtreeCounts {
  added: number;
  changed: number;
  /** Entries that the directory has and the backup lacks. */
  extra: number;
}

/**
 * Writes LDIF that brings the entries of a branch to what a backup has of them: entries that are gone as content
 * records, with their entryUUID and stored passwords; others renamed and modified. Entries that the backup lacks stay,
 * and stand in comments. Operational attributes of entries that are still there are not compared.
 */
export async function writeSubtree(
  backup: OpenDirectory,
  present: OpenDirectory,
  base: Dn,
  file: string,
): Promise<SubtreeCounts> {
  if (!(await backup.partition.findRow(base))) throw new CliError(`the backup has no entry "${base.text}"`);
  const output = new OutputStream(file);
  const counts = { added: 0, changed: 0, extra: 0 };
  const kept = new Set<string>();
  const moved = new Map<string, string>();
  await output.write(VERSION_LINE);
  for (const id of await idsBelow(backup, base)) {
    const former = (await backup.partition.readById(id, true))!;
    const now = await present.partition.readById(id, true);
    kept.add(id.toString('latin1'));
    const dn = now && dnAfter((await present.partition.readStored(id))!, moved);
    if (now && dn !== former.dn) moved.set(id.toString('latin1'), former.dn);
    const records = now ? changesOf(present, former, now, dn!) : [formatEntry(former.dn, attributesOf(former))];
    for (const record of records) await output.write(record);
    if (!now) counts.added++;
    else if (records.length > 0) counts.changed++;
  }
  for (const id of await idsBelow(present, base)) {
    if (kept.has(id.toString('latin1'))) continue;
    const { dn } = (await present.partition.readById(id))!;
    await output.write(formatComment(`not in the backup: ${dn}`));
    counts.extra++;
  }
  await output.end();
  return counts;
}

/** Returns the entries of a branch, parents before children; none if it is not there. */
async function idsBelow({ partition, schema }: OpenDirectory, base: Dn): Promise<Buffer[]> {
  const found: { readonly depth: number; readonly id: Buffer }[] = [];
  if (!(await partition.findRow(base))) return [];
  await partition.search(
    { ...UNLIMITED_SEARCH, base, scope: 'sub', filter: ANY_ENTRY },
    {
      entry: ({ id, dn }) => void found.push({ depth: schema.parseDnBytes(dn).rdns.length, id: Buffer.from(id) }),
      reference: () => undefined,
    },
  );
  return found.sort((a, b) => a.depth - b.depth).map(({ id }) => id);
}

function attributesOf({ attributes }: Entry): PartialAttribute[] {
  return attributes.map(({ description, values }) => ({ type: description, values }));
}

/** Returns the DN of an entry behind renames. `moved`: the new DNs by entryUUID, Latin-1. */
function dnAfter(
  node: Pick<Node, 'id' | 'dn'> & { readonly parent?: Node | undefined },
  moved: ReadonlyMap<string, string>,
): string {
  const { id, dn, parent } = node;
  const newDn = moved.get(id.toString('latin1'));
  if (newDn !== undefined || !parent || parent.dn.length === 0) return newDn ?? dn.toString();
  return `${dn.subarray(0, -parent.dn.length - 1)},${dnAfter(parent, moved)}`;
}

/** Returns the records that make the former entry of an entry. `dn`: its DN behind the records before them. */
function changesOf({ schema }: OpenDirectory, former: Entry, now: Entry, dn: string): Buffer[] {
  const records: Buffer[] = [];
  const position = { line: 0, offset: 0, text: Buffer.alloc(0), controls: [] };
  if (former.dn !== dn) {
    const comma = schema.parseDn(former.dn).rdns[0]!.text.length;
    const [newRdn, newSuperior] = [former.dn.slice(0, comma), former.dn.slice(comma + 1)];
    records.push(formatChange({ ...position, kind: 'modrdn', dn, newRdn, deleteOldRdn: true, newSuperior }));
  }
  const [before, after] = [now, former].map((entry) => new Map(attributesOf(entry).map((a) => [a.type, a.values])));
  const changes: Modification[] = [];
  for (const type of new Set([...before!.keys(), ...after!.keys()])) {
    const values = after!.get(type) ?? [];
    if (schema.describe(type)?.type.operational !== false || sameValues(before!.get(type) ?? [], values)) continue;
    changes.push({ operation: 'replace', attribute: { type, values } });
  }
  if (changes.length > 0) records.push(formatChange({ ...position, kind: 'modify', dn: former.dn, changes }));
  return records;
}

function sameValues(a: readonly Buffer[], b: readonly Buffer[]): boolean {
  const sorted = (values: readonly Buffer[]) => values.map((value) => value.toString('latin1')).sort();
  return sorted(a).join('\0') === sorted(b).join('\0');
}
