import type { Hit } from '../../partition/read/sink.js';

export interface ReplyEntry extends Pick<Hit, 'id' | 'row' | 'dn' | 'sight'> {
  /** Absent when the row contains every attribute: root DSE, cn=Subschema, cn=Monitor. */
  readonly numSubordinates?: Hit['numSubordinates'];
  readonly memberOf?: Hit['memberOf'];
  /** Absent when the row contains the members already. */
  readonly withMembers?: Hit['withMembers'] | undefined;
  /** Whether the entry has more members than the row contains. */
  readonly hasMoreMembers?: boolean;
  readonly extras?: EntryExtras | undefined;
}

/** Encoded parts of an entry that are not in its row: results of request controls, and the state of the account. */
export interface EntryExtras {
  /** PartialAttributes (RFC 4511 §4.1.7) to append to those of the row. */
  readonly attributes: Buffer;
  /** `controls [0]` of the message; empty: none. */
  readonly controls: Buffer;
  /** Stored attributes that `attributes` replace. */
  readonly replacedStates?: ReplacedStates | undefined;
}

/** The attributes of the account's state, without or with `pwdAccountLockedTime`. */
export type ReplacedStates = 'states' | 'states and lock';
