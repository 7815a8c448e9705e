import { NO_RIGHTS, type RightSet } from '../right.js';
import type { AttributeBits } from './attribute-bits.js';
import type { Element, Origin, RuleDraft } from './element.js';
import { EVERYWHERE, intersectRegions, type Place, type Region, regionContains, subtractRegion } from './place.js';
import type { Report } from './report.js';
import { areDisjoint, EVERYBODY, intersectWho, subtractWho, toRuleWho, type WhoSet, whoContains } from './who-set.js';

/**
 * Translates a first-match list into rules. Each step becomes a rule that allows. Where an earlier step grants less,
 * the rule covers less, or a second rule denies the excess. The rules never grant a right that the list does not grant.
 * The report mentions rights that are lost.
 */
export class FirstMatch {
  readonly #steps: readonly Element[];
  readonly #bits: AttributeBits;
  readonly #report: Report;
  readonly #lossRemark: string | undefined;
  readonly drafts: RuleDraft[] = [];

  /** `loss`: the remark about lost rights, for a list whose steps combine several lines of the source. */
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

  #reportNotTranslated(line: number, reason: string): void {
    if (this.#lossRemark === undefined) this.#report.add('left', line, reason);
    else this.#report.add('less', line, this.#lossRemark);
  }

  /** Whether a later step grants the same rights to all of `who`, and no step between them restricts these rights. */
  #isGrantedLater({ region, who, rights }: Element, index: number): boolean {
    for (const later of this.#steps.slice(index + 1)) {
      if (isDisjoint(later, region, who)) continue;
      if ((rights & ~later.rights) !== 0) return false;
      if (later.inexactReason === undefined && regionContains(later.region, region) && whoContains(later.who, who))
        return true;
    }
    return false;
  }

  #grant(element: Element, index: number): void {
    const narrowedStep = this.#narrowStep(element, index);
    if (!narrowedStep) return;
    const { region, who, rights, deniedIndexes } = narrowedStep;
    const { origin } = element;
    const ruleWho = toRuleWho(who);
    if (!this.#bits.ruleWords(region.attributes)) {
      this.#report.add('left', origin.line, 'no rule can say what it is about, when what stands before it is left out');
      return;
    }
    this.drafts.push({ kind: 'allow', ...region, place: toSubtree(region.place), who: ruleWho, rights, origin });
    for (const i of deniedIndexes) this.#deny(i, region, who, rights & ~this.#steps[i]!.rights, origin);
    if (region.place.scope === 'children') this.#denyAtEntry(element, region, who, rights);
  }

  /**
   * Returns the step without the requesters, entries and rights that earlier steps decide. `deniedIndexes`: earlier
   * steps for which a rule has to deny the excess. Undefined if nothing is left.
   */
  #narrowStep(element: Element, index: number) {
    let { region, who, rights } = element;
    const deniedIndexes: number[] = [];
    for (let i = 0; i < index; i++) {
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
      if (smallerWho) {
        who = smallerWho;
        continue;
      }
      const smallerRegion = coversWho ? subtractRegion(region, earlierStep.region, this.#bits) : undefined;
      if (smallerRegion) region = smallerRegion;
      else deniedIndexes.push(i);
    }
    return { region, who, rights, deniedIndexes };
  }

  #reportHeldBack({ origin, inexactReason }: Element, laterStep: Element): void {
    const [of, to] = [origin.line, laterStep.origin.line];
    const laterText = of === to ? 'what stands behind it here' : `line ${to}`;
    const remark = `${inexactReason}, so that ${laterText} ('${laterStep.origin.text}') gives less`;
    this.#report.add('less', of, this.#lossRemark ?? remark);
  }

  /** Denies the rights on the base entry of a scope `children`. Rules lack this scope and use `subtree`. */
  #denyAtEntry(element: Element, region: Region, who: WhoSet, rights: RightSet): void {
    const entryRegion: Region = { ...region, place: { scope: 'base', base: region.place.base } };
    this.#steps.forEach((otherStep, i) => {
      const excess = rights & ~otherStep.rights;
      if (otherStep !== element && excess !== NO_RIGHTS && !isDisjoint(otherStep, entryRegion, who))
        this.#deny(i, entryRegion, who, excess, element.origin);
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

  #deny(index: number, area: Region, grantee: WhoSet, excess: RightSet, limitedGrant: Origin): void {
    this.#denyWithin(this.#steps[index]!, index, area, grantee, excess, limitedGrant);
  }

  /** Denies `excess` of `step` in `area`, except where steps before `step` decide. */
  #denyWithin(
    step: Element,
    index: number,
    area: Region,
    grantee: WhoSet,
    excess: RightSet,
    limitedGrant: Origin,
  ): void {
    let region = intersectRegions(step.region, area);
    if (!region) return;
    const intersection = intersectWho(step.who, grantee);
    let who = intersection === 'unknown' ? step.who : intersection;
    for (let i = 0; who && i < index; i++) {
      const earlierStep = this.#steps[i]!;
      if ((earlierStep.rights & excess) === 0 || isDisjoint(earlierStep, region, who)) continue;
      if (earlierStep.inexactReason !== undefined) {
        this.#reportLost(earlierStep, step, limitedGrant);
        continue;
      }
      if (regionContains(earlierStep.region, region)) {
        const smallerWho = subtractWho(who, earlierStep.who);
        if (!smallerWho) return;
        who = smallerWho;
        continue;
      } else if (whoContains(earlierStep.who, who)) {
        const smallerRegion = subtractRegion(region, earlierStep.region, this.#bits);
        if (smallerRegion) {
          region = smallerRegion;
          continue;
        }
      }
      this.#reportLost(earlierStep, step, limitedGrant);
    }
    if (who) this.#pushDenial(step, region, who, excess, limitedGrant);
  }

  #pushDenial(step: Element, region: Region, who: WhoSet, rights: RightSet, limitedGrant: Origin): void {
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
      who: toRuleWho(who),
      rights,
      origin: step.origin,
      limitedGrant,
    });
  }

  #reportWiderDenial(step: Element, region: Region, who: WhoSet, rights: RightSet, limitedGrant: Origin): void {
    for (const otherStep of this.#steps)
      if (otherStep !== step && otherStep.rights & rights && !isDisjoint(otherStep, region, who))
        this.#reportLost(otherStep, step, limitedGrant);
  }

  #reportLost(lostStep: Element, step: Element, limitedGrant: Origin): void {
    const [of, to] = [lostStep.origin.line, limitedGrant.line];
    const samePlaceText = step.origin.line === of ? '' : ` where line ${step.origin.line} is about the same`;
    const limitedText = to === of ? 'another part of this line' : `line ${to}`;
    const remark = `'${lostStep.origin.text}' gives less${samePlaceText}, since no rule can stop what ${limitedText} gives there, and leave this`;
    this.#report.add('less', of, this.#lossRemark ?? remark);
  }
}

function isDisjoint(element: Element, region: Region, who: WhoSet): boolean {
  return !element.remainingWho || areDisjoint(element.remainingWho, who) || !intersectRegions(element.region, region);
}

function toSubtree(place: Place): Place {
  return place.scope === 'children' ? { ...place, scope: 'subtree' } : place;
}
