import type { EntryChange, PartialAttribute } from '../ldap/ldap-types.js';

/** A `control:` line (RFC 2849, ldif-change-record). */
export interface LdifControl {
  readonly oid: string;
  readonly critical: boolean;
  readonly value: Buffer | undefined;
}

interface RecordPosition {
  /** Line of the file where the record begins (its `dn:` line), from 1. */
  readonly line: number;
  readonly offset: number;
  /** The unchanged text from the `dn:` line to the end of the last line, for a rejects file. A view of the input. */
  readonly text: Buffer;
  /** Values of a long record that `text` does not contain. `formatRecord` inserts them. */
  readonly detachedValues?: readonly LdifDetachedValue[];
}

/** A value to insert into the text of a record at `textOffset`. */
export interface LdifDetachedValue {
  readonly textOffset: number;
  readonly value: Buffer;
}

interface RecordWithDn extends RecordPosition {
  readonly dn: string;
}

interface ChangeBase extends RecordWithDn {
  readonly controls: readonly LdifControl[];
}

/** A record without `changetype:`: an entry. */
export interface LdifContent extends RecordWithDn {
  readonly kind: 'content';
  /** Attributes in order of appearance. Descriptions that differ only in case are merged under the first spelling. */
  readonly attributes: readonly PartialAttribute[];
}

/** A change without its controls and its place in a file. */
export type LdifChange = EntryChange;
export type LdifAdd = ChangeBase & Extract<EntryChange, { kind: 'add' }>;
export type LdifDelete = ChangeBase & Extract<EntryChange, { kind: 'delete' }>;
export type LdifModify = ChangeBase & Extract<EntryChange, { kind: 'modify' }>;
export type LdifRename = ChangeBase & Extract<EntryChange, { kind: 'modrdn' }>;

/** A record that is not valid LDIF. Reading continues after the record. */
export interface LdifFailure extends RecordPosition {
  readonly kind: 'error';
  readonly faultLine: number;
  /** `line 17: ` and the mistake. Never contains an attribute value. */
  readonly reason: string;
}

export type LdifRecord = LdifContent | LdifAdd | LdifDelete | LdifModify | LdifRename | LdifFailure;

export interface LdifOptions {
  /** Decides which `:<` URLs may be read. Only `file:` URLs are supported. Default: none may be read. */
  readonly allowUrls?: ((url: URL) => boolean) | undefined;
  /** The most bytes of a record and of a file that a URL names. Default: 256 MiB. */
  readonly maxRecordBytes?: number | undefined;
  /** In records of more bytes than this, long values are decoded as they arrive. Default: 1 MiB. */
  readonly longRecordBytes?: number | undefined;
}

/** A mistake in line `line` of a record. The parser turns it into an `LdifFailure`. */
export class LdifFault extends Error {
  override readonly name = 'LdifFault';
  readonly line: number;

  constructor(line: number, message: string) {
    super(message);
    this.line = line;
  }
}
