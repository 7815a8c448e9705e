/** Size of a slab in bytes. A slab has room for one chunk of responses and for a message after the chunk. */
export const SLAB = 64 * 1024;
/**
 * Number of slabs in an area. An area has to exceed 32 MiB: malloc then maps it separately, so that memory is used only
 * once it is written to, and goes back to the system as a whole. Smaller allocations would stay in the heap of malloc.
 */
const AREA_SLABS = 528;
/** When the server is idle, it gives back the areas if more slabs than this number were in use at a time. */
const MAX_KEPT_SLABS = 64;

/** Many slabs in one allocation, which goes back to the system as a whole. */
class Area {
  readonly bytes = Buffer.allocUnsafeSlow(AREA_SLABS * SLAB);
  /** Reference count of each slab: one for the writer that fills it, and one for each view that is not sent yet. */
  readonly #referenceCounts = new Uint16Array(AREA_SLABS);
  readonly #freeIndexes: number[] = [];
  /** Index of the first slab that was never used. */
  usedCount = 0;

  /** A slab with a reference count of 1, owned by the caller; undefined if the area is full. */
  takeSlab(): Buffer | undefined {
    const i = this.#freeIndexes.pop() ?? (this.usedCount < AREA_SLABS ? this.usedCount++ : undefined);
    if (i === undefined) return undefined;
    this.#referenceCounts[i] = 1;
    return this.bytes.subarray(i * SLAB, (i + 1) * SLAB);
  }

  retain(view: Buffer): void {
    this.#referenceCounts[slabIndex(view)]!++;
  }

  release(view: Buffer): void {
    const i = slabIndex(view);
    if (--this.#referenceCounts[i]! === 0) this.#freeIndexes.push(i);
  }
}

function slabIndex(view: Buffer): number {
  return Math.floor(view.byteOffset / SLAB);
}

/** The area of each buffer. Also has abandoned areas, which are not in `areas`. */
const areaByBuffer = new WeakMap<ArrayBufferLike, Area>();
/** Areas that new slabs are taken from. */
let areas: Area[] = [];

/** Returns `SLAB` bytes. The slab is reused after its owner and all holders of views called `releaseSlab`. */
export function takeSlab(): Buffer {
  for (const area of areas) {
    const slab = area.takeSlab();
    if (slab) return slab;
  }
  const area = new Area();
  areas.push(area);
  areaByBuffer.set(area.bytes.buffer, area);
  return area.takeSlab()!;
}

export function isSlabView(view: Buffer): boolean {
  return areaByBuffer.has(view.buffer);
}

/** Adds a reference to the slab of the view, so that the bytes stay valid. No effect on other buffers. */
export function retainSlab(view: Buffer): void {
  areaByBuffer.get(view.buffer)?.retain(view);
}

/** Drops a reference that `takeSlab` or `retainSlab` added. */
export function releaseSlab(view: Buffer): void {
  areaByBuffer.get(view.buffer)?.release(view);
}

/** Whether so many slabs were in use at a time that giving the memory back to the system pays off. */
export function hadManySlabs(): boolean {
  return areas.length > 1 || (areas.length === 1 && areas[0]!.usedCount > MAX_KEPT_SLABS);
}

/** Makes later calls of `takeSlab` use new areas. An old area goes back to the system after its last reference. */
export function abandonSlabs(): void {
  areas = [];
}
