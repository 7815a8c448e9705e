/**
 * Generates entryCSN values: `YYYYmmddHHMMSS.ffffffZ#count#replica#mod` (draft-ietf-ldup-model, in the form that
 * OpenLDAP writes). Within a process the values rise even if the clock goes back, and all are above `after`. Concurrent
 * writers of one directory have different counts.
 */
export class CsnClock {
  #micros: number;
  readonly #now: () => number;
  readonly #count: number;
  /** The CSN of the current second, with no microseconds. */
  #secondCsn: Buffer = Buffer.alloc(0);
  #second = -1;

  /** `after`: latest CSN in the directory; `now`: clock in ms since 1970; `count`: number of this process. */
  constructor(after?: string, now: () => number = Date.now, count = 0) {
    this.#now = now;
    this.#count = count;
    this.#micros = after === undefined ? 0 : csnMicros(after);
  }

  /** Returns a CSN above every CSN returned before and above `after`. */
  next(after?: string): string {
    return this.nextBytes(after).toString('latin1');
  }

  nextBytes(after?: string): Buffer {
    this.#micros = Math.max(this.#now() * 1000, this.#micros + 1);
    const csn = this.#format(this.#micros);
    if (after === undefined || after < csn.toString('latin1', 0, LAST_DIGIT + 1)) return csn;
    this.#micros = Math.max(this.#micros, csnMicros(after) + 1);
    return this.#format(this.#micros);
  }

  #format(micros: number): Buffer {
    const second = Math.floor(micros / 1e6);
    if (second !== this.#second) {
      this.#second = second;
      const count = this.#count.toString(16).padStart(6, '0');
      this.#secondCsn = Buffer.from(`${generalizedTime(second * 1000).slice(0, -1)}.000000Z#${count}#000#000000`);
    }
    const csn = Buffer.allocUnsafe(this.#secondCsn.length);
    for (let i = 0; i < csn.length; i++) csn[i] = this.#secondCsn[i]!;
    let fraction = micros - second * 1e6;
    for (let at = LAST_DIGIT; fraction > 0; at--) {
      const rest = Math.floor(fraction / 10);
      csn[at]! += fraction - rest * 10;
      fraction = rest;
    }
    return csn;
  }
}

/** Offset of the last digit of the microseconds. */
const LAST_DIGIT = 20;

/** Returns the microseconds since 1970 in a CSN, or 0 if the text is not a CSN. */
export function csnMicros(csn: string): number {
  const m = /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)\.(\d{6})Z#/.exec(csn);
  if (!m) return 0;
  const [, y, mo, d, h, mi, s, f] = m.map(Number) as number[];
  return Date.UTC(y!, mo! - 1, d!, h!, mi!, s!) * 1000 + f!;
}

let lastSecond = -1;
let lastText = '';

/** Formats milliseconds since 1970 as a GeneralizedTime of whole seconds, UTC (RFC 4517 §3.3.13). */
export function generalizedTime(ms: number): string {
  const second = Math.floor(ms / 1000);
  if (second !== lastSecond) {
    lastText = `${new Date(second * 1000).toISOString().slice(0, 19).replace(/[-T:]/g, '')}Z`;
    lastSecond = second;
  }
  return lastText;
}
