/** A Buffer over the same memory: a message from another thread brings buffers as plain byte arrays. */
export function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
}
