import { bufferOf } from '../../ldap/bytes.js';
import { LdapError, type ResultName } from '../../ldap/ldap-error.js';
import { ProtocolError } from '../../protocol/reader.js';
import type { LongRequest, LongResult } from '../../server/processes/long-request.js';
import type { LiveValues } from '../../server/settings/index.js';
import type { Identity } from '../../server/words/session.js';
import { describeError } from '../exit.js';

/** A message to the thread. `id` is the number of the request. */
export type ThreadOrder =
  | { readonly type: 'request'; readonly id: number; readonly request: LongRequest }
  /** Bytes of this request were sent to the client, so the thread may post more. */
  | { readonly type: 'taken'; readonly id: number }
  /** The message in pieces could not be sent to the client. */
  | { readonly type: 'cut'; readonly id: number }
  | { readonly type: 'abort'; readonly id: number }
  /** New values of live settings. Later requests are carried out with them. */
  | { readonly type: 'settings'; readonly values: LiveValues }
  | { readonly type: 'stop' };

/** A message from the thread. */
export type ThreadReport =
  /** The thread has opened the directory. */
  | { readonly type: 'ready' }
  /** Whole LDAP messages. */
  | { readonly type: 'messages'; readonly id: number; readonly bytes: Uint8Array }
  /** A piece of one LDAP message. */
  | { readonly type: 'piece'; readonly id: number; readonly bytes: Uint8Array }
  /** The end of the LDAP message in pieces. `broken`: the message is not complete. */
  | { readonly type: 'pieced'; readonly id: number; readonly broken: boolean }
  | { readonly type: 'end'; readonly id: number; readonly result: LongResult }
  | { readonly type: 'failed'; readonly id: number; readonly failure: FailureData };

/** An error of a request, as plain data. */
export interface FailureData {
  readonly message: string;
  readonly result: ResultName;
  /** Set when the LDAP message cannot be decoded: where the fault is, and whether the connection must end. */
  readonly protocol?: { readonly offset: number; readonly fatal: boolean };
}

/** Turns an error of the thread into plain data. */
export function toFailureData(error: unknown): FailureData {
  if (error instanceof ProtocolError) {
    const { message, result, offset, fatal } = error;
    return { message, result, protocol: { offset, fatal } };
  }
  if (error instanceof LdapError) return { message: error.message, result: error.result };
  return { message: describeError(error), result: 'other' };
}

/** Turns the plain data into the error that a local request would have thrown. */
export function toError({ message, result, protocol }: FailureData): LdapError {
  if (!protocol) return new LdapError(result, message);
  const error = new ProtocolError('', protocol.offset, protocol.fatal, result);
  error.message = message;
  return error;
}

/** Returns a posted result with its bytes as Buffers. */
export function restoreResult(result: LongResult): LongResult {
  const { outcome } = result;
  const controls = outcome.controls?.map((control) => ({
    ...control,
    value: control.value && bufferOf(control.value),
  }));
  return {
    ...result,
    outcome: controls ? { ...outcome, controls } : outcome,
    identity: restoreIdentity(result.identity),
  };
}

/** Turns the bytes of an identity from another thread, which arrive as plain arrays, back into Buffers. */
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
