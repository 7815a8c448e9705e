import { decodeRequest, peekRequest } from '../../protocol/decode.js';
import { encodeRequest } from '../../protocol/encode.js';
import type { Frame } from '../../protocol/framing.js';
import type { AddRequest, ModifyRequest, Request, RequestMessage } from '../../protocol/ldap-messages.js';
import type { DecodeLimits } from '../../protocol/limits.js';
import type { AnsweredRequest } from '../operations/perform.js';
import type { LongRequest } from '../processes/long-request.js';
import type { Context } from '../request/context.js';

/** Bytes. A longer add or modify request is long, whatever its content, and is not decoded on the event loop. */
const LONG_MESSAGE = 256 * 1024;
/** Bytes. A longer search or compare request is long, whatever its content. */
const LONG_QUESTION = 8 * 1024;
/** BER elements. A search, compare, add or modify request with more is long: it takes much memory when decoded. */
const MANY_ELEMENTS = 1000;
/** Values. An add or modify request with more values is long. */
const MANY_VALUES = 500;
/** Bytes. A request of at most this length is too short for `MANY_VALUES` values, so its values are not counted. */
const SHORT_CHANGE = 2 * 1024;

/** A long request: kept as its bytes until there is room for it, and sent to the long worker if there is one. */
export interface EncodedRequest {
  readonly id: number;
  readonly op: AnsweredRequest['op'];
  /** The message, in memory that can be transferred to another thread. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Number of BER elements of the message. */
  readonly elementCount: number;
}

/**
 * Decodes the message in the frame, which has so many BER elements. A message that would take much memory stays
 * encoded, and with a thread for long work one that would block the event loop for long.
 */
export function decodeUnlessLong(
  frame: Frame,
  elementCount: number,
  hasThread: boolean,
  limits: DecodeLimits,
): RequestMessage | EncodedRequest {
  const { buffer, start, end } = frame;
  const length = end - start;
  if (elementCount > MANY_ELEMENTS || (hasThread && length > LONG_QUESTION)) {
    const requestHead = peekRequest(buffer, start, end);
    if (requestHead && isLongMessage(requestHead.op, length, elementCount))
      return { id: requestHead.id, op: requestHead.op, bytes: transferableBytes(frame), elementCount };
  }
  const message = decodeRequest(buffer, start, end, limits);
  const { id, request } = message;
  return hasThread && hasManyValues(request, length)
    ? { id, op: request.op, bytes: transferableBytes(frame), elementCount }
    : message;
}

/** Encodes a request that turned out to be long after it was decoded. */
export function encodeLongRequest(message: RequestMessage): EncodedRequest {
  const bytes = new Uint8Array(encodeRequest(message));
  // The connection counts the elements of the decoded message until the response.
  return { id: message.id, op: message.request.op as AnsweredRequest['op'], bytes, elementCount: 0 };
}

/** Returns the request together with the state of its connection that the long worker needs. */
export function makeLongRequest(
  { op, session, transport, services }: Context & { readonly op: Request['op'] },
  bytes: Uint8Array<ArrayBuffer>,
): LongRequest {
  const { isEncrypted, isConfidential, address, cipherStrength } = transport;
  const isWrite = op !== 'search' && op !== 'compare';
  const { connectionNumber } = session;
  const isBind = op === 'bind';
  const identity = isBind ? session.previousIdentity : session.identity;
  const state = { isBind, identity, connectionNumber, isEncrypted, isConfidential, address, cipherStrength };
  const primaryUrls = services.primaryLink?.urls;
  return { bytes, isWrite, primaryUrls, ...state, isObserved: services.observation.isActive };
}

/** Returns the bytes of the message. A buffer that holds nothing else is passed on without a copy. */
function transferableBytes({ buffer, start, end }: Frame): Uint8Array<ArrayBuffer> {
  const arrayBuffer = buffer.buffer as ArrayBuffer;
  if (start === 0 && buffer.byteOffset === 0 && end === arrayBuffer.byteLength) return new Uint8Array(arrayBuffer);
  return new Uint8Array(buffer.subarray(start, end));
}

/** Whether the message is long by its size or its elements alone. */
function isLongMessage(op: Request['op'], bytes: number, elementCount: number): op is AnsweredRequest['op'] {
  const isQuestion = op === 'search' || op === 'compare';
  if (!isQuestion && op !== 'add' && op !== 'modify') return false;
  return elementCount > MANY_ELEMENTS || bytes > (isQuestion ? LONG_QUESTION : LONG_MESSAGE);
}

function hasManyValues(request: Request, bytes: number): request is AddRequest | ModifyRequest {
  if (bytes <= SHORT_CHANGE) return false;
  if (request.op === 'add') return exceedsManyValues(request.attributes, ({ values }) => values.length);
  return request.op === 'modify' && exceedsManyValues(request.changes, ({ attribute }) => attribute.values.length);
}

function exceedsManyValues<T>(list: readonly T[], values: (element: T) => number): boolean {
  let count = list.length;
  for (const element of list) count += values(element);
  return count > MANY_VALUES;
}
