/** Copies up to a quarter of a slab share one: an allocation costs more than the copy. */
const SLAB = 32 * 1024;

/** Memory that is being filled. Up to three bytes behind what was asked for may be written. */
export interface Room {
  bytes: Buffer;
  view: DataView;
  /** Where in `bytes` and in `view` it begins. */
  start: number;
}

const EXCESS = 3;

/** Room for `length` bytes, of its own. */
export function newRoom(length: number): Room {
  const bytes = Buffer.allocUnsafeSlow(length + EXCESS);
  return { bytes, view: new DataView(bytes.buffer), start: 0 };
}

const slab = newRoom(SLAB);
/** Memory that is written again and again stays in the processor's caches, and leaves nothing to collect. */
const lent = newRoom(SLAB);
/** Bytes that were lent last. */
let lentLength = 0;

/** Room for `length` bytes. `taken` makes them, or as many as were needed, the caller's own, before the next call. */
export function reserve(length: number): Room {
  return roomIn(slab, length);
}

/** Room for `length` bytes that are good until it is called again, or for ever where `keepLent` is called before. */
export function lend(length: number): Room {
  lentLength = length;
  return roomIn(lent, length);
}

/** What was lent last is the caller's own. */
export function keepLent(): void {
  advance(lent, lentLength);
  lentLength = 0;
}

function roomIn(shared: Room, length: number): Room {
  if (length > SLAB >> 2) return newRoom(length);
  if (shared.start + length > SLAB) {
    const { bytes, view } = newRoom(SLAB);
    shared.bytes = bytes;
    shared.view = view;
    shared.start = 0;
  }
  return shared;
}

export function taken(room: Room, length: number): Buffer {
  const out = written(room, length);
  advance(room, length);
  return out;
}

/** The first `length` bytes of a room. */
export function written({ bytes, start }: Room, length: number): Buffer {
  // Half the time of `subarray`, which asks for the memory each time.
  return Buffer.from(bytes.buffer as ArrayBuffer, start, length);
}

function advance(room: Room, length: number): void {
  room.start += (length + 7) & ~7;
}

/** A Buffer of the caller's own; its bytes are anything. */
export function allocate(length: number): Buffer {
  return taken(reserve(length), length);
}
