import type { RightSet } from '../right.js';
import type { Attributes } from './attribute-bits.js';
import type { Place } from './place.js';
import type { Region } from './region.js';
import type { PlainWho, WhoSet } from './who-set.js';

/** Where something stands in the source. */
export interface Origin {
  readonly line: number;
  /** For people. */
  readonly text: string;
}

/**
 * One step of a list in which the first that holds decides: for who asks, in the region, it is these rights and no
 * others.
 */
export interface Element {
  readonly region: Region;
  readonly who: WhoSet;
  /** Of `who` those to whom no step before it in the same region holds; undefined: nobody. */
  readonly first: WhoSet | undefined;
  readonly rights: RightSet;
  /**
   * Undefined: region and who are what the source says. Else they are more than that, since rules cannot say it, and
   * this is why: the step gives nothing, and others give no more than its rights there.
   */
  readonly unsure: string | undefined;
  readonly origin: Origin;
}

/** A rule in the making. */
export interface RuleDraft {
  readonly kind: 'allow' | 'deny';
  /** Never `children`. */
  readonly place: Place;
  readonly filters: readonly string[];
  readonly attributes: Attributes;
  readonly who: PlainWho;
  readonly rights: RightSet;
  readonly origin: Origin;
  /** Of a denial the line that would give it. */
  readonly stops?: Origin;
}
