/** Returns a Buffer over the same memory. Messages between threads turn Buffers into plain byte arrays. */
export function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
}
