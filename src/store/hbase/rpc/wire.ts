import { EMPTY } from '../../row.js';
import { Failure, failureOfException } from './failure.js';
import { MessageReader, MessageWriter, varintLength, writeVarint } from './protobuf.js';

/** A response: the reader of the message, and the cell block after it (empty if there is none). */
export interface Answer {
  readonly message: MessageReader;
  readonly cells: Buffer;
}

const CELL_CODEC_CLASS = 'org.apache.hadoop.hbase.codec.KeyValueCodec';
/** Encodes the start of a connection: 'HBas', version 0, authentication SIMPLE (80), and the ConnectionHeader. */
export function encodePreamble(service: string, user: string): Buffer {
  const versionInfo = new MessageWriter()
    .string(1, '2.6.1')
    .string(2, '')
    .string(3, '')
    .string(4, '')
    .string(5, '')
    .string(6, '')
    .uint(7, 2)
    .uint(8, 6)
    .finish();
  const header = new MessageWriter()
    .message(1, new MessageWriter().string(1, user))
    .string(2, service)
    .string(3, CELL_CODEC_CLASS)
    .bytes(5, versionInfo)
    .finish();
  const out = Buffer.allocUnsafe(10 + header.length);
  out.write('HBas', 'latin1');
  out[4] = 0;
  out[5] = 80;
  out.writeUInt32BE(header.length, 6);
  out.set(header, 10);
  return out;
}

const methodNames = new Map<string, Buffer>();

/** Encodes the field `method_name` of a RequestHeader, with its tag. Cached by method. */
function encodeMethodName(method: string): Buffer {
  let field = methodNames.get(method);
  if (!field) {
    field = new MessageWriter().string(3, method).finish();
    methodNames.set(method, field);
  }
  return field;
}

/** Encodes a request without its cell block. */
export function encodeRequest(
  id: number,
  method: string,
  message: Buffer,
  cells: readonly Buffer[],
  timeoutMs: number,
): Buffer {
  let cellBytes = 0;
  for (const buffer of cells) cellBytes += buffer.length;
  const methodField = encodeMethodName(method);
  const timeout = Math.max(1, Math.ceil(timeoutMs));
  // RequestHeader: call_id 1, method_name 3, request_param 4, cell_block_meta 5 { length 1 }, timeout 7
  const metaLength = cellBytes > 0 ? 1 + varintLength(cellBytes) : 0;
  const headerLength =
    1 + varintLength(id) + methodField.length + 2 + (metaLength && 2 + metaLength) + 1 + varintLength(timeout);
  const length = varintLength(headerLength) + headerLength + varintLength(message.length) + message.length;
  const out = Buffer.allocUnsafe(4 + length);
  out.writeUInt32BE(length + cellBytes, 0);
  let offset = writeVarint(out, 4, headerLength);
  out[offset++] = 0x08;
  offset = writeVarint(out, offset, id);
  out.set(methodField, offset);
  offset += methodField.length;
  out[offset++] = 0x20;
  out[offset++] = 1;
  if (metaLength) {
    out[offset++] = 0x2a;
    out[offset++] = metaLength;
    out[offset++] = 0x08;
    offset = writeVarint(out, offset, cellBytes);
  }
  out[offset++] = 0x38;
  offset = writeVarint(out, offset, timeout);
  offset = writeVarint(out, offset, message.length);
  out.set(message, offset);
  return out;
}

export interface ResponseHeader {
  readonly id: number;
  readonly cellBytes: number;
  readonly failure: Failure | undefined;
}

export function readResponseHeader(reader: MessageReader, server: string): ResponseHeader {
  let id = -1;
  let cellBytes = 0;
  let failure: Failure | undefined;
  while (reader.next()) {
    if (reader.field === 1) id = reader.uint();
    else if (reader.field === 2) failure = readException(reader.message(), server);
    else if (reader.field === 3) {
      const meta = reader.message();
      while (meta.nextField(1)) cellBytes = meta.uint();
    } else reader.skip();
  }
  return { id, cellBytes, failure };
}

/**
 * Reads an ExceptionResponse: exception_class_name 1, stack_trace 2, do_not_retry 5, server_overloaded 6. Also reads a
 * NameBytesPair { name 1, value 2 } with the same content.
 */
export function readException(reader: MessageReader, server: string): Failure {
  let exceptionName = '';
  let stackTrace = '';
  let isFinal = false;
  let isOverload = false;
  while (reader.next()) {
    if (reader.field === 1) exceptionName = reader.string();
    else if (reader.field === 2) stackTrace = reader.string();
    else if (reader.field === 5) isFinal = reader.bool();
    else if (reader.field === 6) isOverload = reader.bool();
    else reader.skip();
  }
  return failureOfException(server, exceptionName, stackTrace, { isFinal, isOverload });
}

/** Reads the message after the header. The rest of the response must be a cell block of `cellBytes` bytes. */
export function readAnswer(reader: MessageReader, cellBytes: number): Answer {
  if (reader.offset === reader.end) return { message: new MessageReader(EMPTY), cells: EMPTY };
  const message = reader.delimitedMessage();
  if (cellBytes !== reader.end - reader.offset)
    throw new Failure(`a cell block of ${reader.end - reader.offset} bytes where ${cellBytes} were announced`);
  return { message, cells: cellBytes === 0 ? EMPTY : reader.buffer.subarray(reader.offset, reader.end) };
}
