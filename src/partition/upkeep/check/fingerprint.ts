/**
 * A fingerprint of a set of index rows: their number, and two sums of hashes of the keys. Independent of their order.
 * Two different sets have the same fingerprint with probability 2⁻⁶⁴.
 */
export class Fingerprint {
  count = 0;
  #firstSum = 0;
  #secondSum = 0;

  /** Adds a row with the key `prefix` + `id`. Without `id`, `prefix` is the whole key. */
  add(prefix: Buffer, id?: Buffer): void {
    let a = 0x811c9dc5;
    let b = 0x9747b28c;
    for (let keyPart: Buffer | undefined = prefix; keyPart; keyPart = keyPart === id ? undefined : id) {
      for (let i = 0; i < keyPart.length; i++) {
        a = Math.imul(a ^ keyPart[i]!, 0x01000193);
        b = Math.imul((b ^ keyPart[i]!) + ((b << 7) | (b >>> 25)), 0x85ebca6b);
      }
    }
    this.#firstSum = (this.#firstSum + mixBits(a)) | 0;
    this.#secondSum = (this.#secondSum + mixBits(b)) | 0;
    this.count++;
  }

  equals(other: Fingerprint): boolean {
    return this.count === other.count && this.#firstSum === other.#firstSum && this.#secondSum === other.#secondSum;
  }
}

/** Lets every bit affect the whole hash, so that sums of hashes do not cancel each other out. */
function mixBits(hash: number): number {
  let h = hash ^ (hash >>> 16);
  h = Math.imul(h, 0x7feb352d);
  h ^= h >>> 15;
  h = Math.imul(h, 0x846ca68b);
  return h ^ (h >>> 16);
}
