import type { Modification, PartialAttribute } from '../ldap/ldap-types.js';

/** A `control:` line (RFC 2849, ldif-change-record). */
export interface LdifControl {
  readonly oid: string;
  readonly critical: boolean;
  readonly value: Buffer | undefined;
}

interface Located {
  /** Line of the file where the record begins: its `dn:` line; from 1. */
  readonly line: number;
  /** Byte of the file where that line begins; from 0. */
  readonly offset: number;
  /** The record as it stands in the file, from that line to the end of its last: a view, for a rejects file. */
  readonly text: Buffer;
  /** Values of a long record that are left out of `text`: `formatRecord` puts them in again. */
  readonly apart?: readonly LdifApart[];
}

/** A value that belongs into a record's text at `at`. */
export interface LdifApart {
  readonly at: number;
  readonly value: Buffer;
}

interface Named extends Located {
  readonly dn: string;
}

interface Changing extends Named {
  readonly controls: readonly LdifControl[];
}

/** An entry without `changetype:`. */
export interface LdifContent extends Named {
  readonly kind: 'content';
  /**
   * One for each description, in the order of first appearance; descriptions that differ only in case are one, spelled
   * as the first.
   */
  readonly attributes: readonly PartialAttribute[];
}

export interface LdifAdd extends Changing {
  readonly kind: 'add';
  readonly attributes: readonly PartialAttribute[];
}

export interface LdifDelete extends Changing {
  readonly kind: 'delete';
}

export interface LdifModify extends Changing {
  readonly kind: 'modify';
  readonly changes: readonly Modification[];
}

/** `changetype: modrdn` or `moddn`. */
export interface LdifRename extends Changing {
  readonly kind: 'modrdn';
  readonly newRdn: string;
  readonly deleteOldRdn: boolean;
  readonly newSuperior: string | undefined;
}

/** A record that is not LDIF. Reading goes on after it. */
export interface LdifFailure extends Located {
  readonly kind: 'error';
  /** Line of the fault. */
  readonly faultLine: number;
  /** `line 17: ` and what is wrong there; never an attribute's value. */
  readonly reason: string;
}

export type LdifRecord = LdifContent | LdifAdd | LdifDelete | LdifModify | LdifRename | LdifFailure;

export interface LdifOptions {
  /** Says which `:<` URLs may be read (file: only); without it none may. */
  readonly allowUrls?: ((url: URL) => boolean) | undefined;
  /** Bytes of a record's text, and of a file that a URL names; 256 MiB unless told. A longer record is an error. */
  readonly maxRecordBytes?: number | undefined;
  /** A record that is longer is not kept as text: its long values are decoded as they come. 1 MiB unless told. */
  readonly longRecordBytes?: number | undefined;
}

/** A fault in a record: `line` is where, the message what. Ends as `LdifFailure`. */
export class LdifFault extends Error {
  override readonly name = 'LdifFault';
  readonly line: number;

  constructor(line: number, message: string) {
    super(message);
    this.line = line;
  }
}
