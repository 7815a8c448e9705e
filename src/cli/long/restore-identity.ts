import { bufferOf } from '../../ldap/bytes.js';
import type { Identity } from '../../server/words/session.js';

/** Returns an identity that was posted from another thread with its bytes as Buffers, which arrive as plain arrays. */
export function restoreIdentity(identity: Identity): Identity {
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
