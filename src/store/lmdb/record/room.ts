/**
 * Bytes of a slab. Copies of up to a quarter of this size share a slab, since an allocation costs more than the copy.
 */
const SLAB_BYTES = 32 * 1024;

/** Memory for a result that is being written. Writers may write up to three bytes beyond the requested length. */
export interface Room {
  bytes: Buffer;
  view: DataView;
  /** Offset of the room in `bytes` and `view`. */
  start: number;
}

const EXCESS_BYTES = 3;

/** Allocates room for `length` bytes. */
export function newRoom(length: number): Room {
  const bytes = Buffer.allocUnsafeSlow(length + EXCESS_BYTES);
  return { bytes, view: new DataView(bytes.buffer), start: 0 };
}

const slab = newRoom(SLAB_BYTES);
/** The memory of `reserveScratch`. Reused memory stays in the processor's caches and leaves no garbage. */
const scratch = newRoom(SLAB_BYTES);
/** Length of the last reservation in `scratch`. */
let scratchLength = 0;

/** Returns room for `length` bytes. Before the next call, `takeBytes` must claim the bytes that were used. */
export function reserve(length: number): Room {
  return roomInSlab(slab, length);
}

/** Returns room for `length` bytes. The next call overwrites the room, unless `detachScratch` is called before. */
export function reserveScratch(length: number): Room {
  scratchLength = length;
  return roomInSlab(scratch, length);
}

/** Leaves the last room of `reserveScratch` to the caller: later calls do not overwrite it. */
export function detachScratch(): void {
  advance(scratch, scratchLength);
  scratchLength = 0;
}

function roomInSlab(slabRoom: Room, length: number): Room {
  if (length > SLAB_BYTES >> 2) return newRoom(length);
  if (slabRoom.start + length > SLAB_BYTES) {
    const { bytes, view } = newRoom(SLAB_BYTES);
    slabRoom.bytes = bytes;
    slabRoom.view = view;
    slabRoom.start = 0;
  }
  return slabRoom;
}

/** Returns the first `length` bytes of a room as a Buffer that belongs to the caller. */
export function takeBytes(room: Room, length: number): Buffer {
  const out = viewBytes(room, length);
  advance(room, length);
  return out;
}

/** Returns the first `length` bytes of a room as a Buffer. */
export function viewBytes({ bytes, start }: Room, length: number): Buffer {
  // Takes half the time of `subarray`.
  return Buffer.from(bytes.buffer as ArrayBuffer, start, length);
}

function advance(room: Room, length: number): void {
  room.start += (length + 7) & ~7;
}

/** Returns an uninitialized Buffer that belongs to the caller. */
export function allocate(length: number): Buffer {
  return takeBytes(reserve(length), length);
}
