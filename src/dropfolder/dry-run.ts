import { LdapError } from '../ldap/ldap-error.js';
import type { PartialAttribute } from '../ldap/ldap-types.js';
import type { Partition } from '../partition/index.js';
import type { ChangeRecord } from '../records/apply.js';
import { valuesOf } from './csv-changes.js';
import type { FileContext, FileSettings } from './file-run.js';
import { DropError, Layout, maskControls, openDroppedFile } from './layout.js';
import { nameFault, parseFileName } from './names.js';
import { LdifSource, type SourceRecord } from './source.js';

/** Yields lines that describe the changes in the dropped files, without secret values. Changes and moves nothing. */
export async function* dryRun(
  folder: string,
  partition: Partition,
  { maxBytes, csvSource }: Pick<FileSettings, 'maxBytes'> & Pick<FileContext, 'csvSource'>,
): AsyncGenerator<string> {
  const layout = await Layout.open(folder);
  for (const nameBytes of (await layout.listNames('target')).sort(Buffer.compare)) {
    const name = nameBytes.toString();
    yield `${maskControls(name)}:`;
    try {
      const fault = nameFault(nameBytes);
      if (fault !== undefined) throw new DropError(fault);
      const file = await openDroppedFile(layout.path('target', name), maxBytes);
      try {
        const source = parseFileName(name).isCsv ? await csvSource(file) : new LdifSource(file);
        for await (const record of source.readRecords(0)) yield* describeRecord(partition, record);
      } finally {
        await file.close();
      }
    } catch (error) {
      if (!(error instanceof DropError)) throw error;
      yield `  refused: ${error.message}`;
    }
  }
}

async function* describeRecord(partition: Partition, source: SourceRecord): AsyncGenerator<string> {
  try {
    const record = await source.makeChange();
    if (record) yield* describeChange(partition, record);
  } catch (error) {
    if (!(error instanceof LdapError)) throw error;
    yield `  refused: line ${source.line}: ${error.message}`;
  }
}

async function* describeChange(partition: Partition, record: ChangeRecord): AsyncGenerator<string> {
  const { schema } = partition;
  const formatValues = ({ type, values }: PartialAttribute): string => {
    if (values.length === 0) return '(none)';
    return schema.requireDescription(type).type.secret ? '(secret)' : maskControls(values.map(String).join(', '));
  };
  switch (record.kind) {
    case 'add':
      yield `  add ${record.dn}`;
      for (const attribute of record.attributes) yield `    ${attribute.type}: ${formatValues(attribute)}`;
      return;
    case 'delete':
      yield `  remove ${record.dn}`;
      return;
    case 'modrdn':
      yield `  rename ${record.dn} to ${record.newRdn}${record.newSuperior ? ` below ${record.newSuperior}` : ''}`;
      return;
    case 'modify': {
      const entry = await partition.read(schema.parseDn(record.dn), { manageDsaIT: true });
      yield `  change ${record.dn}`;
      for (const { operation, attribute } of record.changes) {
        const values = valuesOf(schema, entry, schema.requireDescription(attribute.type));
        const presentText = formatValues({ type: attribute.type, values });
        if (operation === 'replace') yield `    ${attribute.type}: ${presentText} -> ${formatValues(attribute)}`;
        else yield `    ${attribute.type}: ${presentText}, ${operation} ${formatValues(attribute)}`;
      }
    }
  }
}
