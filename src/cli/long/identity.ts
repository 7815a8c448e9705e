import { bufferOf } from '../../ldap/bytes.js';
import type { Identity } from '../../server/words/session.js';

/** An identity that has come from another thread: its bytes have become plain arrays on the way. */
export function revivedIdentity(identity: Identity): Identity {
  switch (identity.kind) {
    case 'anonymous':
      return identity;
    case 'admin':
      return { ...identity, password: bufferOf(identity.password) };
    case 'user':
      return {
        ...identity,
        id: bufferOf(identity.id),
        passwords: identity.passwords.map(bufferOf),
        application: identity.application && bufferOf(identity.application),
      };
  }
}
