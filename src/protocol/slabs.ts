/** Bytes of a slab: room for one piece of a long answer and for a message behind it. */
export const SLAB = 64 * 1024;
/**
 * Slabs of an area. malloc keeps what it takes from its own heap; of more than 32 MiB each is mapped by itself, costs
 * nothing until it is written to, and goes back to the system whole.
 */
const AREA_SLABS = 528;
/** Areas in which more slabs were used than this are let go when nothing is on its way. */
const KEPT_SLABS = 64;

/** Slabs with one life: the system gets them back together. */
class Area {
  readonly bytes = Buffer.allocUnsafeSlow(AREA_SLABS * SLAB);
  /** How many hold each slab: the writer that fills it, and each piece of it that is on its way. */
  readonly #holds = new Uint16Array(AREA_SLABS);
  readonly #free: number[] = [];
  /** Those from here on were never used. */
  used = 0;

  /** A slab that nobody holds, held by the caller. */
  take(): Buffer | undefined {
    const i = this.#free.pop() ?? (this.used < AREA_SLABS ? this.used++ : undefined);
    if (i === undefined) return undefined;
    this.#holds[i] = 1;
    return this.bytes.subarray(i * SLAB, (i + 1) * SLAB);
  }

  hold(piece: Buffer): void {
    this.#holds[indexOf(piece)]!++;
  }

  release(piece: Buffer): void {
    const i = indexOf(piece);
    if (--this.#holds[i]! === 0) this.#free.push(i);
  }
}

function indexOf(piece: Buffer): number {
  return Math.floor(piece.byteOffset / SLAB);
}

/** Of each buffer that has slabs, also when its area was let go. */
const areaOf = new WeakMap<ArrayBufferLike, Area>();
/** Those that slabs are taken from. */
let areas: Area[] = [];

/** `SLAB` bytes that nobody else writes to, until whoever holds it or a piece of it has called `releaseSlab`. */
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

/** Whether the piece is of a slab. */
export function isSlab(piece: Buffer): boolean {
  return areaOf.has(piece.buffer);
}

/** The piece is held besides: its bytes stay as they are. Nothing for one that is of no slab. */
export function holdSlab(piece: Buffer): void {
  areaOf.get(piece.buffer)?.hold(piece);
}

/** Gives back what `takeSlab` or `holdSlab` held; once each. */
export function releaseSlab(piece: Buffer): void {
  areaOf.get(piece.buffer)?.release(piece);
}

/** Whether so many slabs were in use at once that they are worth giving back to the system. */
export function slabsWereMany(): boolean {
  return areas.length > 1 || (areas.length === 1 && areas[0]!.used > KEPT_SLABS);
}

/** Slabs come from new areas: the system gets the others back when nobody holds anything of them. */
export function leaveSlabs(): void {
  areas = [];
}
