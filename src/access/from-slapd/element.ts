import type { RightSet } from '../right.js';
import type { Attributes } from './attribute-bits.js';
import type { Place } from './place.js';
import type { Region } from './region.js';
import type { RuleWho, WhoSet } from './who-set.js';

/** A position in the source. */
export interface Origin {
  readonly line: number;
  /** Text to display. */
  readonly text: string;
}

/** A step of a first-match list: the first step that matches the requester and the region decides the rights. */
export interface Element {
  readonly region: Region;
  readonly who: WhoSet;
  /** The part of `who` that no earlier step in the same region matches; undefined: nobody. */
  readonly remainingWho: WhoSet | undefined;
  readonly rights: RightSet;
  /**
   * Undefined if `region` and `who` are exact. Otherwise the reason why rules cannot express the step exactly: then
   * `region` and `who` are supersets, the step grants nothing, and later steps grant at most its rights there.
   */
  readonly inexactReason: string | undefined;
  readonly origin: Origin;
}

/** A rule before its notation is chosen. */
export interface RuleDraft {
  readonly kind: 'allow' | 'deny';
  /** The scope is never `children`. */
  readonly place: Place;
  readonly filters: readonly string[];
  readonly attributes: Attributes;
  readonly who: RuleWho;
  readonly rights: RightSet;
  readonly origin: Origin;
  /** For a denial: the source line whose grant the rule limits. */
  readonly limitedGrant?: Origin;
}
