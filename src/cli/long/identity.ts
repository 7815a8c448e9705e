import type { Identity } from '../../server/session.js';

function buffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
}

/** An identity that has come from another thread: its bytes have become plain arrays on the way. */
export function revivedIdentity(identity: Identity): Identity {
  switch (identity.kind) {
    case 'anonymous':
      return identity;
    case 'admin':
      return { ...identity, password: buffer(identity.password) };
    case 'user':
      return { ...identity, id: buffer(identity.id), passwords: identity.passwords.map(buffer) };
  }
}
