import { LdapError } from '../ldap/ldap-error.js';
import type { Partition } from '../partition/index.js';
import { draftFromAttributes } from '../partition/model/draft.js';
import { completeClasses, completeRdn } from '../partition/write/complete.js';
import type { ChangeRecord } from '../records/apply.js';
import type { Schema } from '../schema/schema.js';
import type { RecordSource } from './source.js';

/** The records of a file that violate the schema. */
export interface InvalidRecords {
  readonly count: number;
  /** The first `MAX_LISTED_ERRORS` of the records. */
  readonly errors: readonly { readonly line: number; readonly reason: string }[];
}

const MAX_LISTED_ERRORS = 10;

/** Checks each record against the schema alone, without reading the entries that modify records change. */
export async function validate({ schema }: Partition, source: RecordSource): Promise<InvalidRecords> {
  const errors: InvalidRecords['errors'][number][] = [];
  let count = 0;
  for await (const sourceRecord of source.readRecords(0)) {
    try {
      const record = await sourceRecord.makeChange();
      if (record) checkRecord(schema, record);
    } catch (error) {
      if (!(error instanceof LdapError)) throw error;
      count++;
      if (errors.length < MAX_LISTED_ERRORS)
        errors.push({ line: sourceRecord.line, reason: `${error.result}: ${error.message}` });
    }
  }
  return { count, errors };
}

function checkRecord(schema: Schema, record: ChangeRecord): void {
  const dn = schema.parseDn(record.dn);
  switch (record.kind) {
    case 'add': {
      const draft = draftFromAttributes(schema, record.attributes);
      completeClasses(schema, draft);
      if (dn.rdns[0]) completeRdn(draft, schema, dn.rdns[0]);
      const attributes = draft.attributes.map(({ description, values }) => ({
        description,
        values: values.map(({ bytes }) => bytes),
      }));
      if (dn.rdns[0]) schema.checkEntry(attributes, dn.rdns[0], { system: true });
      return;
    }
    case 'modify':
      for (const { operation, attribute } of record.changes) {
        if (operation === 'delete') schema.requireDescription(attribute.type);
        else schema.checkValues(schema.requireStorable(attribute.type), attribute.values);
      }
      return;
    case 'modrdn':
      schema.parseRdn(record.newRdn);
      if (record.newSuperior !== undefined) schema.parseDn(record.newSuperior);
  }
}
