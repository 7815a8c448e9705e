/** LDIF (RFC 2849): text to records and back, streaming. Knows no server. docs/formats/ldif.md */

export type {
  LdifAdd,
  LdifApart,
  LdifContent,
  LdifControl,
  LdifDelete,
  LdifFailure,
  LdifModify,
  LdifOptions,
  LdifRecord,
  LdifRename,
} from './ldif-types.js';
export { LdifParser } from './parser.js';
export { readLdif } from './read.js';
export {
  formatChange,
  formatComment,
  formatEntry,
  formatEntryPieces,
  formatRecord,
  type LdifWriteOptions,
  VERSION_LINE,
} from './write.js';
