/** A Buffer over the same memory. A message from another thread contains plain byte arrays in place of Buffers. */
export function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
}
