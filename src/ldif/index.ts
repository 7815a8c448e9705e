/** Streaming reader and writer of LDIF (RFC 2849), independent of the server. See docs/formats/ldif.md. */

export type {
  LdifAdd,
  LdifChange,
  LdifContent,
  LdifControl,
  LdifDelete,
  LdifDetachedValue,
  LdifFailure,
  LdifModify,
  LdifOptions,
  LdifRecord,
  LdifRename,
} from './ldif-types.js';
export { isAttributeDescription } from './names.js';
export { LdifParser, readLdif } from './parser.js';
export {
  formatChange,
  formatComment,
  formatEntry,
  formatEntryChunks,
  formatRecord,
  type LdifWriteOptions,
  LEFT_OUT,
  VERSION_LINE,
} from './write.js';
