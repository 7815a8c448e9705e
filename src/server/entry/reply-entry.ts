import type { Hit } from '../../partition/read/sink.js';

/** An entry on its way to a client. */
export interface ReplyEntry extends Pick<Hit, 'id' | 'row' | 'dn' | 'sight'> {
  /** Absent where the row itself holds every attribute: root DSE, cn=Subschema, cn=Monitor. */
  readonly numSubordinates?: Hit['numSubordinates'];
}
