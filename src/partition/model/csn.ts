/**
 * Generates entryCSN values: `YYYYmmddHHMMSS.ffffffZ#count#replica#mod` (draft-ietf-ldup-model, in the form that
 * OpenLDAP writes). Within a process the values rise even if the clock goes back, and all are above `latestCsn`.
 * Concurrent writers of one directory have different counts.
 */
export class CsnClock {
  #lastMicros: number;
  readonly #clockMs: () => number;
  readonly #processNumber: number;
  /** The CSN of the last used second, with microseconds 0. */
  #secondCsn: Buffer = Buffer.alloc(0);
  #formattedSecond = -1;

  /** `latestCsn`: that of the directory; `clockMs`: ms since 1970; `processNumber`: the `count` of the CSNs. */
  constructor(latestCsn?: string, clockMs: () => number = Date.now, processNumber = 0) {
    this.#clockMs = clockMs;
    this.#processNumber = processNumber;
    this.#lastMicros = latestCsn === undefined ? 0 : csnMicros(latestCsn);
  }

  /** Returns a CSN that is greater than all earlier results and than `after`. */
  nextCsn(after?: string): string {
    return this.nextCsnBytes(after).toString('latin1');
  }

  nextCsnBytes(after?: string): Buffer {
    this.#lastMicros = Math.max(this.#clockMs() * 1000, this.#lastMicros + 1);
    const csn = this.#format(this.#lastMicros);
    if (after === undefined || after < csn.toString('latin1', 0, LAST_DIGIT + 1)) return csn;
    this.#lastMicros = Math.max(this.#lastMicros, csnMicros(after) + 1);
    return this.#format(this.#lastMicros);
  }

  #format(micros: number): Buffer {
    const second = Math.floor(micros / 1e6);
    if (second !== this.#formattedSecond) {
      this.#formattedSecond = second;
      const countHex = this.#processNumber.toString(16).padStart(6, '0');
      this.#secondCsn = Buffer.from(`${generalizedTime(second * 1000).slice(0, -1)}.000000Z#${countHex}#000#000000`);
    }
    const csn = Buffer.allocUnsafe(this.#secondCsn.length);
    for (let i = 0; i < csn.length; i++) csn[i] = this.#secondCsn[i]!;
    let fraction = micros - second * 1e6;
    for (let offset = LAST_DIGIT; fraction > 0; offset--) {
      const tens = Math.floor(fraction / 10);
      csn[offset]! += fraction - tens * 10;
      fraction = tens;
    }
    return csn;
  }
}

/** Offset of the last digit of the microseconds in a CSN. */
const LAST_DIGIT = 20;

/** Returns the time in a CSN in microseconds since 1970; 0 if the text is not a CSN. */
export function csnMicros(csn: string): number {
  const match = /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)\.(\d{6})Z#/.exec(csn);
  if (!match) return 0;
  const [, y, mo, d, h, mi, s, f] = match.map(Number) as number[];
  return Date.UTC(y!, mo! - 1, d!, h!, mi!, s!) * 1000 + f!;
}

/**
 * Returns a CSN for cookies and `contextCSN`: replica ID 000 becomes fff. slapd ignores an entry whose entryCSN is not
 * above the CSN with the same replica ID in its cookie, but entryCSNs do not rise in the order of changes.
 */
export function contextCsn(csn: string): string {
  return csn.replace('#000#', '#fff#');
}

let lastSecond = -1;
let lastGeneralizedTime = '';

/** Formats milliseconds since 1970 as a GeneralizedTime of whole seconds, UTC (RFC 4517 §3.3.13). */
export function generalizedTime(ms: number): string {
  const second = Math.floor(ms / 1000);
  if (second !== lastSecond) {
    lastGeneralizedTime = `${new Date(second * 1000).toISOString().slice(0, 19).replace(/[-T:]/g, '')}Z`;
    lastSecond = second;
  }
  return lastGeneralizedTime;
}
