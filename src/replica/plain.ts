/** Plain data as JSON, for requests between replicas and primaries. Byte arrays, bigints and Infinity are marked. */

export function encodePlain(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value, mark));
}

/** Throws `SyntaxError` if the text is no JSON. The shape is not checked. */
export function decodePlain(bytes: Buffer): unknown {
  return JSON.parse(bytes.toString(), unmark);
}

function mark(this: unknown, key: string, value: unknown): unknown {
  // JSON.stringify passes what `toJSON` of a Buffer returns; the holder has the Buffer.
  const own = (this as Record<string, unknown>)[key];
  if (own instanceof Uint8Array) return { $bytes: Buffer.from(own).toString('base64') };
  if (value === Number.POSITIVE_INFINITY) return { $infinite: true };
  return typeof value === 'bigint' ? { $number: String(value) } : value;
}

function unmark(_key: string, value: unknown): unknown {
  if (value === null || typeof value !== 'object') return value;
  const { $bytes, $number, $infinite } = value as Readonly<Record<string, unknown>>;
  if ($infinite === true) return Number.POSITIVE_INFINITY;
  if (typeof $bytes === 'string') return Buffer.from($bytes, 'base64');
  return typeof $number === 'string' ? BigInt($number) : value;
}
