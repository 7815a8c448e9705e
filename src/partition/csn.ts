/**
 * entryCSN values: `YYYYmmddHHMMSS.ffffffZ#count#replica#mod` (draft-ietf-ldup-model; as OpenLDAP writes them).
 * They rise for as long as the process lives, whatever the clock does, and start above `after`. Processes that write to
 * one directory at the same time are told apart by the count.
 */
export class CsnClock {
  #micros: number;
  readonly #now: () => number;
  readonly #count: number;

  /** `after`: the latest CSN that the directory holds; `now`: milliseconds since 1970; `count`: of this process. */
  constructor(after?: string, now: () => number = Date.now, count = 0) {
    this.#now = now;
    this.#count = count;
    this.#micros = after === undefined ? 0 : csnMicros(after);
  }

  /** A CSN above every one given before and above `after`. */
  next(after?: string): string {
    const floor = after === undefined ? 0 : csnMicros(after);
    this.#micros = Math.max(this.#now() * 1000, this.#micros + 1, floor + 1);
    return formatCsn(this.#micros, this.#count);
  }
}

/** Microseconds since 1970 in a CSN; 0 when it is none. */
export function csnMicros(csn: string): number {
  const m = /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)\.(\d{6})Z#/.exec(csn);
  if (!m) return 0;
  const [, y, mo, d, h, mi, s, f] = m.map(Number) as number[];
  return Date.UTC(y!, mo! - 1, d!, h!, mi!, s!) * 1000 + f!;
}

function formatCsn(micros: number, count: number): string {
  const seconds = Math.floor(micros / 1e6);
  const fraction = String(micros - seconds * 1e6).padStart(6, '0');
  return `${generalizedTime(seconds * 1000).slice(0, -1)}.${fraction}Z#${count.toString(16).padStart(6, '0')}#000#000000`;
}

let lastSecond = -1;
let lastText = '';

/** Milliseconds since 1970 as GeneralizedTime of whole seconds, UTC (RFC 4517 §3.3.13). */
export function generalizedTime(ms: number): string {
  const second = Math.floor(ms / 1000);
  if (second !== lastSecond) {
    lastText = `${new Date(second * 1000).toISOString().slice(0, 19).replace(/[-T:]/g, '')}Z`;
    lastSecond = second;
  }
  return lastText;
}
