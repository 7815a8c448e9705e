/** Size of a slab in bytes: room for one piece of a long response and for a message after the piece. */
export const SLAB = 64 * 1024;
/**
 * Number of slabs in an area. An area has to exceed 32 MiB: malloc then maps the area separately, so that memory is
 * used only once it is written to and goes back to the system as a whole. Smaller blocks stay in the heap of malloc.
 */
const AREA_SLABS = 528;
/** When the server is idle, areas in which more slabs than this were used are given back. */
const KEPT_SLABS = 64;

/** A group of slabs in one allocation. The system gets the memory back as a whole. */
class Area {
  readonly bytes = Buffer.allocUnsafeSlow(AREA_SLABS * SLAB);
  /** References to each slab: by the writer that fills the slab, and by each piece that is not sent yet. */
  readonly #references = new Uint16Array(AREA_SLABS);
  readonly #free: number[] = [];
  /** Index of the first slab that was never used. */
  used = 0;

  /** A slab with a reference count of 1, owned by the caller; undefined if the area is full. */
  take(): Buffer | undefined {
    const i = this.#free.pop() ?? (this.used < AREA_SLABS ? this.used++ : undefined);
    if (i === undefined) return undefined;
    this.#references[i] = 1;
    return this.bytes.subarray(i * SLAB, (i + 1) * SLAB);
  }

  retain(piece: Buffer): void {
    this.#references[indexOf(piece)]!++;
  }

  release(piece: Buffer): void {
    const i = indexOf(piece);
    if (--this.#references[i]! === 0) this.#free.push(i);
  }
}

function indexOf(piece: Buffer): number {
  return Math.floor(piece.byteOffset / SLAB);
}

/** The area of each buffer, including areas that are no longer in `areas`. */
const areaOf = new WeakMap<ArrayBufferLike, Area>();
/** Areas that new slabs are taken from. */
let areas: Area[] = [];

/** Allocates `SLAB` bytes. The slab is reused when its owner and all holders of pieces have called `releaseSlab`. */
export function takeSlab(): Buffer {
  for (const area of areas) {
    const slab = area.take();
    if (slab) return slab;
  }
  const area = new Area();
  areas.push(area);
  areaOf.set(area.bytes.buffer, area);
  return area.take()!;
}

/** Whether the piece is part of a slab. */
export function isSlabPiece(piece: Buffer): boolean {
  return areaOf.has(piece.buffer);
}

/** Adds a reference to the slab of the piece, so that the bytes stay valid. No effect on other buffers. */
export function retainSlab(piece: Buffer): void {
  areaOf.get(piece.buffer)?.retain(piece);
}

/** Drops a reference that `takeSlab` or `retainSlab` added. */
export function releaseSlab(piece: Buffer): void {
  areaOf.get(piece.buffer)?.release(piece);
}

/** Whether the peak number of slabs in use was so high that giving the memory back to the system pays off. */
export function hadManySlabs(): boolean {
  return areas.length > 1 || (areas.length === 1 && areas[0]!.used > KEPT_SLABS);
}

/** New slabs come from new areas from now on. The system gets an old area back after its last reference. */
export function abandonSlabs(): void {
  areas = [];
}
