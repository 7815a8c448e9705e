import { formatComment } from '../../ldif/index.js';
import { printable } from '../words/printable.js';

/** Longest value of a field, in characters. */
const MAX_TEXT = 8192;

/** Formats one LDIF comment line for each field of an audit record. Control characters of values are escaped. */
export function formatAuditComments(fields: Readonly<Record<string, string>>): string {
  const lines = Object.entries(fields).map(([name, value]) => `${name}: ${printable(value, MAX_TEXT)}`);
  return formatComment(lines.join('\n')).toString();
}
