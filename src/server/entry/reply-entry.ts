import type { Hit } from '../../partition/read/sink.js';

/** An entry on its way to a client. */
export interface ReplyEntry extends Pick<Hit, 'id' | 'row' | 'dn' | 'sight'> {
  /** Absent where the row itself holds every attribute: root DSE, cn=Subschema, cn=Monitor. */
  readonly numSubordinates?: Hit['numSubordinates'];
  readonly memberOf?: Hit['memberOf'];
  /** Absent where its members are in the row already. */
  readonly withMembers?: Hit['withMembers'] | undefined;
  /** It has more members than are in the row. */
  readonly moreMembers?: boolean;
  readonly beside?: Beside | undefined;
}

/** What controls of the request have an entry tell, encoded. */
export interface Beside {
  /** PartialAttributes (RFC 4511 §4.1.7) after those of the entry. */
  readonly attributes: Buffer;
  /** `controls [0]` of the message; empty: none. */
  readonly controls: Buffer;
  /** Stored values that `attributes` take the place of. */
  readonly instead?: Instead | undefined;
}

/** Attributes of the account's state, `pwdAccountLockedTime` among them or not. */
export type Instead = 'states' | 'states and lock';
