import { NO_RIGHTS, type RightSet } from '../right.js';
import type { AttributeBits } from './attribute-bits.js';
import type { Element, Origin, RuleDraft } from './element.js';
import { EVERYWHERE, type Place } from './place.js';
import { intersectRegions, type Region, regionContains, subtractRegion } from './region.js';
import type { Report } from './report.js';
import { areDisjoint, EVERYBODY, intersectWho, subtractWho, toRuleWho, type WhoSet, whoContains } from './who-set.js';

/**
 * Translates a first-match list into rules. Each step becomes a rule that allows. If an earlier step grants less, the
 * later rule is narrowed, or the excess is denied. The rules never grant a right that the list does not grant. The
 * report mentions rights that are lost.
 */
export class FirstMatch {
  readonly #steps: readonly Element[];
  readonly #bits: AttributeBits;
  readonly #report: Report;
  readonly #lossRemark: string | undefined;
  readonly drafts: RuleDraft[] = [];

  /** `loss`: the remark about lost rights, for a list whose steps are not lines of the source. */
  constructor(elements: readonly Element[], bits: AttributeBits, report: Report, loss?: string) {
    this.#lossRemark = loss;
    this.#steps = elements;
    this.#bits = bits;
    this.#report = report;
    elements.forEach((element, i) => {
      if (element.rights === NO_RIGHTS) return;
      if (element.inexactReason === undefined) this.#grant(element, i);
      else if (!this.#isGrantedLater(element, i)) this.#reportNotTranslated(element.origin.line, element.inexactReason);
    });
  }

  #reportNotTranslated(line: number, why: string): void {
    if (this.#lossRemark === undefined) this.#report.add('left', line, why);
    else this.#report.add('less', line, this.#lossRemark);
  }

  /** Whether a later step grants the same rights to all of `who`, and no step between them restricts these rights. */
  #isGrantedLater({ region, who, rights }: Element, at: number): boolean {
    for (const other of this.#steps.slice(at + 1)) {
      if (isDisjoint(other, region, who)) continue;
      if ((rights & ~other.rights) !== 0) return false;
      if (other.inexactReason === undefined && regionContains(other.region, region) && whoContains(other.who, who))
        return true;
    }
    return false;
  }

  #grant(element: Element, at: number): void {
    const narrowedStep = this.#narrowStep(element, at);
    if (!narrowedStep) return;
    const { region, who, rights, deniedIndexes } = narrowedStep;
    const { origin } = element;
    const ruleWho = toRuleWho(who);
    if (!ruleWho || !this.#bits.ruleWords(region.attributes)) {
      this.#report.add(
        'left',
        origin.line,
        'no rule can say whom or what it is about, when those before it are left out',
      );
      return;
    }
    this.drafts.push({ kind: 'allow', ...region, place: toSubtree(region.place), who: ruleWho, rights, origin });
    for (const i of deniedIndexes) this.#deny(i, region, who, rights & ~this.#steps[i]!.rights, origin);
    if (region.place.scope === 'children') this.#denyAtEntry(element, region, who, rights);
  }

  /** The step without the parts that earlier steps decide, and the earlier steps that need a rule to deny. */
  #narrowStep(element: Element, at: number) {
    let { region, who, rights } = element;
    const deniedIndexes: number[] = [];
    for (let i = 0; i < at; i++) {
      const earlierStep = this.#steps[i]!;
      if ((rights & ~earlierStep.rights) === 0 || isDisjoint(earlierStep, region, who)) continue;
      if (earlierStep.inexactReason !== undefined) this.#reportHeldBack(earlierStep, element);
      const coversRegion = regionContains(earlierStep.region, region);
      const coversWho = whoContains(earlierStep.who, who);
      if (coversRegion && coversWho) {
        rights &= earlierStep.rights;
        if (earlierStep.inexactReason === undefined || rights === NO_RIGHTS) return undefined;
        continue;
      }
      const smallerWho = coversRegion ? subtractWho(who, earlierStep.who) : undefined;
      if (smallerWho && toRuleWho(smallerWho)) {
        who = smallerWho;
        continue;
      }
      const smallerRegion = coversWho ? subtractRegion(region, earlierStep.region, this.#bits) : undefined;
      if (smallerRegion) region = smallerRegion;
      else deniedIndexes.push(i);
    }
    return { region, who, rights, deniedIndexes };
  }

  #reportHeldBack({ origin, inexactReason }: Element, later: Element): void {
    const [of, to] = [origin.line, later.origin.line];
    const laterText = of === to ? 'what stands behind it here' : `line ${to}`;
    this.#report.add('less', of, this.#lossRemark ?? `${inexactReason}: ${laterText} gives less for that`);
  }

  /** A rule for the children of an entry becomes a rule for its subtree. Adds denials for the entry itself. */
  #denyAtEntry(element: Element, region: Region, who: WhoSet, rights: RightSet): void {
    const entryRegion: Region = { ...region, place: { scope: 'base', base: region.place.base } };
    this.#steps.forEach((other, i) => {
      const extra = rights & ~other.rights;
      if (other !== element && extra !== NO_RIGHTS && !isDisjoint(other, entryRegion, who))
        this.#deny(i, entryRegion, who, extra, element.origin);
    });
    const everywhere = { ...entryRegion, place: EVERYWHERE, filters: [] };
    const endStep: Element = {
      region: everywhere,
      who: EVERYBODY,
      remainingWho: EVERYBODY,
      rights: NO_RIGHTS,
      inexactReason: undefined,
      origin: element.origin,
    };
    this.#denyWithin(endStep, this.#steps.length, entryRegion, who, rights, element.origin);
  }

  #deny(at: number, given: Region, to: WhoSet, extra: RightSet, limitedGrant: Origin): void {
    this.#denyWithin(this.#steps[at]!, at, given, to, extra, limitedGrant);
  }

  /** Denies in region `given` the rights `extra` that `step` does not grant, except where steps before it decide. */
  #denyWithin(step: Element, at: number, given: Region, to: WhoSet, extra: RightSet, limitedGrant: Origin): void {
    let region = intersectRegions(step.region, given);
    if (!region) return;
    const intersection = intersectWho(step.who, to);
    let who = intersection === 'unknown' ? step.who : intersection;
    for (let i = 0; who && i < at; i++) {
      const earlierStep = this.#steps[i]!;
      if ((earlierStep.rights & extra) === 0 || isDisjoint(earlierStep, region, who)) continue;
      if (earlierStep.inexactReason !== undefined) {
        this.#reportLost(earlierStep, step, limitedGrant);
        continue;
      }
      if (regionContains(earlierStep.region, region)) {
        const smallerWho = subtractWho(who, earlierStep.who);
        if (!smallerWho) return;
        if (toRuleWho(smallerWho)) {
          who = smallerWho;
          continue;
        }
      } else if (whoContains(earlierStep.who, who)) {
        const smallerRegion = subtractRegion(region, earlierStep.region, this.#bits);
        if (smallerRegion) {
          region = smallerRegion;
          continue;
        }
      }
      this.#reportLost(earlierStep, step, limitedGrant);
    }
    if (who) this.#pushDenial(step, region, who, extra, limitedGrant);
  }

  #pushDenial(step: Element, region: Region, who: WhoSet, rights: RightSet, limitedGrant: Origin): void {
    const ruleWho = this.#ruleWhoContaining(who, step, limitedGrant);
    let { attributes } = region;
    if (!this.#bits.ruleWords(attributes)) {
      attributes |= attributes & this.#bits.secretBits ? this.#bits.secretBits : this.#bits.plainBits;
      this.#reportWiderDenial(step, { ...region, attributes }, who, rights, limitedGrant);
    }
    if (region.place.scope === 'children')
      this.#reportWiderDenial(
        step,
        { ...region, place: { ...region.place, scope: 'base' } },
        who,
        rights,
        limitedGrant,
      );
    const place = toSubtree(region.place);
    this.drafts.push({
      kind: 'deny',
      ...region,
      attributes,
      place,
      who: ruleWho,
      rights,
      origin: step.origin,
      limitedGrant,
    });
  }

  /** Drops conditions `not` until one is left, since a rule has only one. The result may match more requesters. */
  #ruleWhoContaining(who: WhoSet, step: Element, limitedGrant: Origin) {
    for (let nots = who.nots; ; nots = nots.slice(0, -1)) {
      const ruleWho = toRuleWho({ ...who, nots });
      if (!ruleWho) continue;
      if (nots.length < who.nots.length)
        this.#report.add(
          'less',
          step.origin.line,
          this.#lossRemark ??
            `what it stops of line ${limitedGrant.line} is stopped for some more, since a rule has one 'not' alone`,
        );
      return ruleWho;
    }
  }

  #reportWiderDenial(step: Element, region: Region, who: WhoSet, rights: RightSet, limitedGrant: Origin): void {
    for (const other of this.#steps)
      if (other !== step && other.rights & rights && !isDisjoint(other, region, who))
        this.#reportLost(other, step, limitedGrant);
  }

  #reportLost(lost: Element, step: Element, limitedGrant: Origin): void {
    const [of, to] = [lost.origin.line, limitedGrant.line];
    const samePlaceText = step.origin.line === of ? '' : ` where line ${step.origin.line} is about the same`;
    const limitedText = to === of ? 'another part of this line' : `line ${to}`;
    const remark = `it gives less${samePlaceText}: no rule can stop what ${limitedText} gives there, and leave this`;
    this.#report.add('less', of, this.#lossRemark ?? remark);
  }
}

function isDisjoint(element: Element, region: Region, who: WhoSet): boolean {
  return !element.remainingWho || areDisjoint(element.remainingWho, who) || !intersectRegions(element.region, region);
}

function toSubtree(place: Place): Place {
  return place.scope === 'children' ? { ...place, scope: 'subtree' } : place;
}
