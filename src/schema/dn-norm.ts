/** Computes `norm` of RDNs and DNs, as defined in `schema-types.ts`. */

const PLUS = 0x2b;
const COMMA = 0x2c;
const EQUALS = 0x3d;
const BACKSLASH = 0x5c;

/** Appends a normal form and escapes the bytes that separate RDNs. Returns the offset after the form. */
function writeEscaped(out: Buffer, at: number, value: Buffer): number {
  let end = at;
  for (let i = 0; i < value.length; i++) {
    const byte = value[i]!;
    if (byte === COMMA || byte === PLUS || byte === BACKSLASH) {
      out[end++] = BACKSLASH;
      out[end++] = byte === BACKSLASH ? 0x35 : 0x32;
      out[end++] = byte === COMMA ? 0x63 : byte === PLUS ? 0x62 : 0x63;
    } else out[end++] = byte;
  }
  return end;
}

function escapedLength(form: Buffer): number {
  let length = form.length;
  for (let i = 0; i < form.length; i++) {
    const byte = form[i]!;
    if (byte === COMMA || byte === PLUS || byte === BACKSLASH) length += 2;
  }
  return length;
}

/** `norm` of an RDN with a single attribute. */
export function avaNorm(oid: string, form: Buffer): Buffer {
  const out = Buffer.allocUnsafe(oid.length + 1 + escapedLength(form));
  out.write(oid, 0, 'latin1');
  out[oid.length] = EQUALS;
  writeEscaped(out, oid.length + 1, form);
  return out;
}

/** Joins buffers with a separator byte. */
function joinBuffers(buffers: readonly Buffer[], separator: number): Buffer {
  if (buffers.length === 1) return buffers[0]!;
  let length = Math.max(buffers.length - 1, 0);
  for (const part of buffers) length += part.length;
  const out = Buffer.allocUnsafe(length);
  let at = 0;
  for (let i = 0; i < buffers.length; i++) {
    if (i > 0) out[at++] = separator;
    out.set(buffers[i]!, at);
    at += buffers[i]!.length;
  }
  return out;
}

/** `norm` of an RDN with the given attributes. */
export function rdnNorm(parts: readonly { oid: string; form: Buffer }[]): Buffer {
  if (parts.length === 1) return avaNorm(parts[0]!.oid, parts[0]!.form);
  const norms = parts.map((part) => avaNorm(part.oid, part.form)).sort(Buffer.compare);
  return joinBuffers(norms, PLUS);
}

/** `norm` of a DN with the given RDN norms. */
export function joinRdns(norms: readonly Buffer[]): Buffer {
  return joinBuffers(norms, COMMA);
}
