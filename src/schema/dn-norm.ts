/** Computes `norm` of RDNs and DNs, the normal form that `schema-types.ts` defines. */

const PLUS = 0x2b;
const COMMA = 0x2c;
const EQUALS = 0x3d;
const BACKSLASH = 0x5c;

/** Writes a normal form at `offset` and escapes the bytes that separate RDNs. Returns the offset after it. */
function writeEscaped(out: Buffer, offset: number, value: Buffer): number {
  let end = offset;
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

function escapedLength(normalForm: Buffer): number {
  let length = normalForm.length;
  for (let i = 0; i < normalForm.length; i++) {
    const byte = normalForm[i]!;
    if (byte === COMMA || byte === PLUS || byte === BACKSLASH) length += 2;
  }
  return length;
}

/** Returns `norm` of an RDN with a single attribute. */
export function avaNorm(oid: string, normalForm: Buffer): Buffer {
  const out = Buffer.allocUnsafe(oid.length + 1 + escapedLength(normalForm));
  out.write(oid, 0, 'latin1');
  out[oid.length] = EQUALS;
  writeEscaped(out, oid.length + 1, normalForm);
  return out;
}

/** Joins buffers with a separator byte. */
function joinBuffers(buffers: readonly Buffer[], separator: number): Buffer {
  if (buffers.length === 1) return buffers[0]!;
  let length = Math.max(buffers.length - 1, 0);
  for (const buffer of buffers) length += buffer.length;
  const out = Buffer.allocUnsafe(length);
  let offset = 0;
  for (let i = 0; i < buffers.length; i++) {
    if (i > 0) out[offset++] = separator;
    out.set(buffers[i]!, offset);
    offset += buffers[i]!.length;
  }
  return out;
}

/** Returns `norm` of an RDN with the given attributes. */
export function rdnNorm(avas: readonly { oid: string; form: Buffer }[]): Buffer {
  if (avas.length === 1) return avaNorm(avas[0]!.oid, avas[0]!.form);
  const norms = avas.map((buffer) => avaNorm(buffer.oid, buffer.form)).sort(Buffer.compare);
  return joinBuffers(norms, PLUS);
}

/** Returns `norm` of a DN with the given RDN norms. */
export function joinRdns(norms: readonly Buffer[]): Buffer {
  return joinBuffers(norms, COMMA);
}
