import type { FileHandle } from 'node:fs/promises';
import { LdapError } from '../ldap/ldap-error.js';
import type { PartialAttribute } from '../ldap/ldap-types.js';
import { ROOT } from '../partition/tree/nodes.js';
import type { ChangeRecord } from '../records/apply.js';
import { applyRecord, FileRefusal, openNewFile, openSource, type RecordContext, validate } from './apply-record.js';
import { mayRead, type VisibleEntry, valuesOf } from './csv-changes.js';
import { listTarget } from './drop-folder.js';
import { DropError, Layout, maskControls } from './layout.js';
import { isExpired, parseFileName } from './names.js';
import type { RecordSource } from './source.js';

/**
 * Applies the dropped files to `trial`, a trial copy of the directory, in the order in which a run does. Yields lines
 * that say what each file changes and what is refused, without secret values, control characters of the files, and
 * present values that the applying identity may not read. Moves nothing.
 */
export async function* dryRun(folder: string, trial: RecordContext): AsyncGenerator<string> {
  for await (const line of tryFiles(folder, trial)) yield maskControls(line);
}

async function* tryFiles(folder: string, trial: RecordContext): AsyncGenerator<string> {
  const layout = await Layout.open(folder);
  for (const { nameBytes, fault } of await listTarget(layout)) {
    const name = nameBytes.toString();
    yield `${name}:`;
    const fileName = parseFileName(name);
    let file: FileHandle | undefined;
    try {
      if (fault !== undefined) throw new DropError(fault);
      if (isExpired(fileName)) {
        yield '  expired';
        continue;
      }
      file = await openNewFile(layout, layout.path('target', name), fileName, trial);
      const source = await openSource(file, fileName, trial);
      yield* (source.warnings ?? []).map((warning) => `  warning: ${warning}`);
      if (trial.settings.validateFirst) await validate(trial, file, fileName, undefined);
      yield* tryRecords(trial, source);
    } catch (error) {
      if (error instanceof FileRefusal) yield* error.errors.map(refusalLine);
      const isRefusal = error instanceof FileRefusal || error instanceof DropError;
      if (!isRefusal && !(error instanceof LdapError)) throw error;
      yield `  refused: ${isRefusal ? '' : `${error.result}: `}${error.message}`;
    } finally {
      await file?.close();
    }
  }
}

async function* tryRecords(trial: RecordContext, source: RecordSource): AsyncGenerator<string> {
  const counts = { records: 0, applied: 0, unchanged: 0, refused: 0 };
  for await (const { line, dn, makeChange } of source.readRecords(0)) {
    const lines: string[] = [];
    const describeFirst = async () => {
      const record = await makeChange();
      if (record) lines.push(...(await describeChange(trial, record)));
      return record;
    };
    const { record, reason } = await applyRecord(trial, { line, dn, makeChange: describeFirst });
    yield* reason === undefined ? lines : [refusalLine({ line, reason })];
    counts.records++;
    counts[reason !== undefined ? 'refused' : record ? 'applied' : 'unchanged']++;
  }
  const { records, applied, unchanged, refused } = counts;
  yield `  ${records} records: ${applied} applied, ${unchanged} unchanged, ${refused} refused`;
  const { leftOutCount = 0 } = source;
  if (leftOutCount > 0) yield `  ${leftOutCount} lines "# left out: …": secret and long values that an audit log lacks`;
}

function refusalLine({ line, reason }: { readonly line: number; readonly reason: string }): string {
  return `  refused: line ${line}: ${reason}`;
}

/** Returns the entry; undefined if it is absent, or hidden from the applying identity. */
async function findVisible({ partition, actor }: RecordContext, dn: string): Promise<VisibleEntry | undefined> {
  const found = await partition.findRow(partition.schema.parseDn(dn));
  const entry = found && (await partition.readById(found.id));
  if (!entry) return undefined;
  const { sightOf } = actor.access?.viewer ?? {};
  const sight = sightOf?.({ id: found.id, parent: found.node.parent ?? ROOT, row: found.row });
  return sightOf && !sight ? undefined : { entry, sight };
}

async function describeChange(trial: RecordContext, record: ChangeRecord): Promise<string[]> {
  const { schema } = trial.partition;
  const formatValues = ({ type, values }: PartialAttribute): string => {
    if (values.length === 0) return '(none)';
    return schema.requireDescription(type).type.secret ? '(secret)' : values.map(String).join(', ');
  };
  const { dn } = record;
  switch (record.kind) {
    case 'add':
      return [`  add ${dn}`, ...record.attributes.map((one) => `    ${one.type}: ${formatValues(one)}`)];
    case 'delete':
      return [`  remove ${dn}`];
    case 'modrdn':
      return [`  rename ${dn} to ${record.newRdn}${record.newSuperior ? ` below ${record.newSuperior}` : ''}`];
    case 'modify': {
      const visible = await findVisible(trial, dn);
      return [
        `  change ${dn}`,
        ...record.changes.map(({ operation, attribute }) => {
          const description = schema.requireDescription(attribute.type);
          const presentText =
            visible && mayRead(visible.sight, description)
              ? formatValues({ type: attribute.type, values: valuesOf(schema, visible.entry, description) })
              : '(not readable)';
          const isReplaced = operation === 'replace';
          return `    ${attribute.type}: ${presentText}${isReplaced ? ' ->' : `, ${operation}`} ${formatValues(attribute)}`;
        }),
      ];
    }
  }
}
