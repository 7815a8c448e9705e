import { appendFileSync } from 'node:fs';
import { formatAuditComments } from '../server/logs/audit-comments.js';
import type { Config } from '../server/settings/index.js';
import { describeError } from './exit.js';

/** Appends a record of comments to the audit log, if there is one. Calls `report` when the file cannot be written. */
export function appendAuditRecord(
  { output }: Config['auditLog'],
  fields: Readonly<Record<string, string>>,
  report: (message: string) => void,
): void {
  if (output === 'off') return;
  try {
    appendFileSync(output, `${formatAuditComments({ time: new Date().toISOString(), ...fields })}\n`, { mode: 0o600 });
  } catch (error) {
    report(`the audit log cannot be written: ${describeError(error)}`);
  }
}
