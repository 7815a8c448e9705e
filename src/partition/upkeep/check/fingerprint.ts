/**
 * What a set of index rows comes to: their number and two sums of hashes of their keys, whatever their order. Sets that
 * differ, by damage and not by design, have different ones but for one chance in 2⁶⁴.
 */
export class Fingerprint {
  count = 0;
  #a = 0;
  #b = 0;

  /** The row of `prefix` + `id`; the parts of a key may be given in one. */
  add(prefix: Buffer, id?: Buffer): void {
    let a = 0x811c9dc5;
    let b = 0x9747b28c;
    for (let part: Buffer | undefined = prefix; part; part = part === id ? undefined : id) {
      for (let i = 0; i < part.length; i++) {
        a = Math.imul(a ^ part[i]!, 0x01000193);
        b = Math.imul((b ^ part[i]!) + ((b << 7) | (b >>> 25)), 0x85ebca6b);
      }
    }
    this.#a = (this.#a + mixed(a)) | 0;
    this.#b = (this.#b + mixed(b)) | 0;
    this.count++;
  }

  equals(other: Fingerprint): boolean {
    return this.count === other.count && this.#a === other.#a && this.#b === other.#b;
  }
}

/** Spreads every bit of the hash over all of it, so that sums of hashes do not cancel out. */
function mixed(hash: number): number {
  let h = hash ^ (hash >>> 16);
  h = Math.imul(h, 0x7feb352d);
  h ^= h >>> 15;
  h = Math.imul(h, 0x846ca68b);
  return h ^ (h >>> 16);
}
