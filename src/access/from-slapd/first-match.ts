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
  readonly #elements: readonly Element[];
  readonly #bits: AttributeBits;
  readonly #report: Report;
  readonly #loss: string | undefined;
  readonly drafts: RuleDraft[] = [];

  /** `loss`: remark about lost rights, for lists that do not correspond to lines of the source. */
  constructor(elements: readonly Element[], bits: AttributeBits, report: Report, loss?: string) {
    this.#loss = loss;
    this.#elements = elements;
    this.#bits = bits;
    this.#report = report;
    elements.forEach((element, i) => {
      if (element.rights === NO_RIGHTS) return;
      if (element.inexactReason === undefined) this.#grant(element, i);
      else if (!this.#isGrantedLater(element, i)) this.#reportNotTranslated(element.origin.line, element.inexactReason);
    });
  }

  #reportNotTranslated(line: number, why: string): void {
    if (this.#loss === undefined) this.#report.add('left', line, why);
    else this.#report.add('less', line, this.#loss);
  }

  /** Whether a later step grants the same rights to all of `who`, and no step between them restricts these rights. */
  #isGrantedLater({ region, who, rights }: Element, at: number): boolean {
    for (const other of this.#elements.slice(at + 1)) {
      if (isDisjoint(other, region, who)) continue;
      if ((rights & ~other.rights) !== 0) return false;
      if (other.inexactReason === undefined && regionContains(other.region, region) && whoContains(other.who, who))
        return true;
    }
    return false;
  }

  #grant(element: Element, at: number): void {
    const narrowed = this.#narrow(element, at);
    if (!narrowed) return;
    const { region, who, rights, denied } = narrowed;
    const { origin } = element;
    const plain = toRuleWho(who);
    if (!plain || !this.#bits.words(region.attributes)) {
      this.#report.add(
        'left',
        origin.line,
        'no rule can say whom or what it is about, when those before it are left out',
      );
      return;
    }
    this.drafts.push({ kind: 'allow', ...region, place: toSubtree(region.place), who: plain, rights, origin });
    for (const i of denied) this.#deny(i, region, who, rights & ~this.#elements[i]!.rights, origin);
    if (region.place.scope === 'children') this.#denyAtEntry(element, region, who, rights);
  }

  /** The step without the parts that earlier steps decide, and the earlier steps that need a rule to deny. */
  #narrow(element: Element, at: number) {
    let { region, who, rights } = element;
    const denied: number[] = [];
    for (let i = 0; i < at; i++) {
      const before = this.#elements[i]!;
      if ((rights & ~before.rights) === 0 || isDisjoint(before, region, who)) continue;
      if (before.inexactReason !== undefined) this.#reportHeldBack(before, element);
      const allOfIt = regionContains(before.region, region);
      const allOfThem = whoContains(before.who, who);
      if (allOfIt && allOfThem) {
        rights &= before.rights;
        if (before.inexactReason === undefined || rights === NO_RIGHTS) return undefined;
        continue;
      }
      const fewer = allOfIt ? subtractWho(who, before.who) : undefined;
      if (fewer && toRuleWho(fewer)) {
        who = fewer;
        continue;
      }
      const less = allOfThem ? subtractRegion(region, before.region, this.#bits) : undefined;
      if (less) region = less;
      else denied.push(i);
    }
    return { region, who, rights, denied };
  }

  #reportHeldBack({ origin, inexactReason }: Element, later: Element): void {
    const [of, to] = [origin.line, later.origin.line];
    const what = of === to ? 'what stands behind it here' : `line ${to}`;
    this.#report.add('less', of, this.#loss ?? `${inexactReason}: ${what} gives less for that`);
  }

  /** A rule for the children of an entry becomes a rule for its subtree. Adds denials for the entry itself. */
  #denyAtEntry(element: Element, region: Region, who: WhoSet, rights: RightSet): void {
    const above: Region = { ...region, place: { scope: 'base', name: region.place.name } };
    this.#elements.forEach((other, i) => {
      const extra = rights & ~other.rights;
      if (other !== element && extra !== NO_RIGHTS && !isDisjoint(other, above, who))
        this.#deny(i, above, who, extra, element.origin);
    });
    const all = { ...above, place: EVERYWHERE, filters: [] };
    const end: Element = {
      region: all,
      who: EVERYBODY,
      first: EVERYBODY,
      rights: NO_RIGHTS,
      inexactReason: undefined,
      origin: element.origin,
    };
    this.#denyWithin(end, this.#elements.length, above, who, rights, element.origin);
  }

  #deny(at: number, given: Region, to: WhoSet, extra: RightSet, limitedGrant: Origin): void {
    this.#denyWithin(this.#elements[at]!, at, given, to, extra, limitedGrant);
  }

  /** Denies in region `given` the rights `extra` that `step` does not grant, except where steps before it decide. */
  #denyWithin(step: Element, at: number, given: Region, to: WhoSet, extra: RightSet, limitedGrant: Origin): void {
    let region = intersectRegions(step.region, given);
    if (!region) return;
    const both = intersectWho(step.who, to);
    let who = both === 'unknown' ? step.who : both;
    for (let i = 0; who && i < at; i++) {
      const before = this.#elements[i]!;
      if ((before.rights & extra) === 0 || isDisjoint(before, region, who)) continue;
      if (before.inexactReason !== undefined) {
        this.#reportLost(before, step, limitedGrant);
        continue;
      }
      if (regionContains(before.region, region)) {
        const fewer = subtractWho(who, before.who);
        if (!fewer) return;
        if (toRuleWho(fewer)) {
          who = fewer;
          continue;
        }
      } else if (whoContains(before.who, who)) {
        const less = subtractRegion(region, before.region, this.#bits);
        if (less) {
          region = less;
          continue;
        }
      }
      this.#reportLost(before, step, limitedGrant);
    }
    if (who) this.#pushDenial(step, region, who, extra, limitedGrant);
  }

  #pushDenial(step: Element, region: Region, who: WhoSet, rights: RightSet, limitedGrant: Origin): void {
    const plain = this.#ruleWhoContaining(who, step, limitedGrant);
    let { attributes } = region;
    if (!this.#bits.words(attributes)) {
      attributes |= attributes & this.#bits.secret ? this.#bits.secret : this.#bits.plain;
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
      who: plain,
      rights,
      origin: step.origin,
      limitedGrant,
    });
  }

  /** Drops conditions `not` until one is left, since a rule has only one. The result may match more requesters. */
  #ruleWhoContaining(who: WhoSet, step: Element, limitedGrant: Origin) {
    for (let nots = who.nots; ; nots = nots.slice(0, -1)) {
      const plain = toRuleWho({ ...who, nots });
      if (!plain) continue;
      if (nots.length < who.nots.length)
        this.#report.add(
          'less',
          step.origin.line,
          this.#loss ??
            `what it stops of line ${limitedGrant.line} is stopped for some more, since a rule has one 'not' alone`,
        );
      return plain;
    }
  }

  #reportWiderDenial(step: Element, region: Region, who: WhoSet, rights: RightSet, limitedGrant: Origin): void {
    for (const other of this.#elements)
      if (other !== step && other.rights & rights && !isDisjoint(other, region, who))
        this.#reportLost(other, step, limitedGrant);
  }

  #reportLost(lost: Element, step: Element, limitedGrant: Origin): void {
    const [of, to] = [lost.origin.line, limitedGrant.line];
    const there = step.origin.line === of ? '' : ` where line ${step.origin.line} is about the same`;
    const what = to === of ? 'another part of this line' : `line ${to}`;
    const why = `it gives less${there}: no rule can stop what ${what} gives there, and leave this`;
    this.#report.add('less', of, this.#loss ?? why);
  }
}

function isDisjoint(element: Element, region: Region, who: WhoSet): boolean {
  return !element.first || areDisjoint(element.first, who) || !intersectRegions(element.region, region);
}

function toSubtree(place: Place): Place {
  return place.scope === 'children' ? { ...place, scope: 'subtree' } : place;
}
