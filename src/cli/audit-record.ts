import { appendFileSync, closeSync } from 'node:fs';
import { formatAuditComments } from '../server/logs/audit-comments.js';
import { AUDIT_MODE, openLog } from '../server/logs/line-file.js';
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
    const fd = openLog(output, AUDIT_MODE);
    try {
      appendFileSync(fd, `${formatAuditComments({ time: new Date().toISOString(), ...fields })}\n`);
    } finally {
      closeSync(fd);
    }
  } catch (error) {
    report(`the audit log cannot be written: ${describeError(error)}`);
  }
}
