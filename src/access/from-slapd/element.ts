import type { RightSet } from '../right.js';
import type { Attributes } from './attribute-bits.js';
import type { Place, Region } from './place.js';
import type { RuleWho, WhoSet } from './who-set.js';

/** The line in the source file that a rule comes from. */
export interface Origin {
  readonly line: number;
  /** Text to display. */
  readonly text: string;
}

/** A step of a first-match list: the first step that matches requester and entry decides the rights. */
export interface Element {
  readonly region: Region;
  readonly who: WhoSet;
  /** The requesters in `who` that no earlier step with the same region matches; undefined if there are none. */
  readonly remainingWho: WhoSet | undefined;
  readonly rights: RightSet;
  /**
   * Undefined if `region` and `who` are exact. Otherwise the reason why rules cannot express the step exactly. Then
   * `region` and `who` are supersets of the source, the step itself grants nothing, and later steps grant at most its
   * rights where the sets overlap.
   */
  readonly inexactReason: string | undefined;
  readonly origin: Origin;
}

/** A rule, with internal representations of attributes and place in place of the notation of rules. */
export interface RuleDraft {
  readonly kind: 'allow' | 'deny';
  /** The scope is never `children`. */
  readonly place: Place;
  readonly filters: readonly string[];
  readonly attributes: Attributes;
  readonly who: RuleWho;
  readonly rights: RightSet;
  readonly origin: Origin;
  /** For a denial: the source line whose grant the denial limits. */
  readonly limitedGrant?: Origin;
}
