/** BER built by hand, apart from the codec under test. */

/** An element in the shortest form. Text stands for its UTF-8. */
export function tlv(tag: number, ...content: (Buffer | string | readonly number[])[]): Buffer {
  const body = Buffer.concat(content.map((part) => Buffer.from(part as Buffer)));
  return Buffer.concat([Buffer.from([tag]), lengthOctets(body.length), body]);
}

function lengthOctets(length: number): Buffer {
  if (length < 0x80) return Buffer.from([length]);
  const digits = length.toString(16);
  const octets = Buffer.from(digits.length % 2 === 0 ? digits : `0${digits}`, 'hex');
  return Buffer.concat([Buffer.from([0x80 + octets.length]), octets]);
}

export const str = (text: string | Buffer): Buffer => tlv(4, text);
export const seq = (...parts: Buffer[]): Buffer => tlv(0x30, ...parts);
export const int = (...octets: number[]): Buffer => tlv(2, octets);
export const enumerated = (value: number): Buffer => tlv(10, [value]);
export const bool = (value: boolean): Buffer => tlv(1, [value ? 0xff : 0]);

/** An LDAPMessage with messageID 5. */
export const message = (...parts: Buffer[]): Buffer => seq(int(5), ...parts);

/** A whole-subtree search below `dc=x` with `filter` and the names asked for. */
export function searchWith(filter: Buffer, ...names: string[]): Buffer {
  const head = [str('dc=x'), enumerated(2), enumerated(0), int(0), int(0), bool(false)];
  return message(tlv(0x63, ...head, filter, seq(...names.map(str))));
}

/** `depth` constructed elements with `tag`, each in the one before, around `(a=b)`. Built from the inside. */
export function nested(tag: number, depth: number): Buffer {
  const core = tlv(0xa3, str('a'), str('b'));
  const room = Buffer.alloc(depth * 6 + core.length);
  let at = room.length - core.length;
  core.copy(room, at);
  for (let i = 0; i < depth; i++) {
    const length = room.length - at;
    const octets = length < 0x80 ? 0 : Math.ceil((32 - Math.clz32(length)) / 8);
    if (octets > 0) room.writeUIntBE(length, at - octets, octets);
    at -= octets;
    room[--at] = octets > 0 ? 0x80 + octets : length;
    room[--at] = tag;
  }
  return room.subarray(at);
}
