import { NO_RIGHTS, type RightSet } from '../right.js';
import type { AttributeBits } from './attribute-bits.js';
import type { Element, Origin, RuleDraft } from './element.js';
import { EVERYWHERE, type Place } from './place.js';
import { type Region, regionContains, regionInBoth, regionWithout } from './region.js';
import type { Report } from './report.js';
import { areApart, EVERYBODY, plainWho, type WhoSet, whoContains, whoInBoth, whoWithout } from './who-set.js';

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
      if (element.unsure === undefined) this.#give(element, i);
      else if (!this.#isGivenLater(element, i)) this.#tellNotGiven(element.origin.line, element.unsure);
    });
  }

  #tellNotGiven(line: number, why: string): void {
    if (this.#loss === undefined) this.#report.left(line, why);
    else this.#report.less(line, this.#loss);
  }

  /** Whether a later step grants the same rights to all of `who`, and no step between them restricts these rights. */
  #isGivenLater({ region, who, rights }: Element, at: number): boolean {
    for (const other of this.#elements.slice(at + 1)) {
      if (isApart(other, region, who)) continue;
      if ((rights & ~other.rights) !== 0) return false;
      if (other.unsure === undefined && regionContains(other.region, region) && whoContains(other.who, who))
        return true;
    }
    return false;
  }

  #give(element: Element, at: number): void {
    const narrowed = this.#narrowed(element, at);
    if (!narrowed) return;
    const { region, who, rights, denied } = narrowed;
    const { origin } = element;
    const plain = plainWho(who);
    if (!plain || !this.#bits.words(region.attributes)) {
      this.#report.left(origin.line, 'no rule can say whom or what it is about, when those before it are left out');
      return;
    }
    this.drafts.push({ kind: 'allow', ...region, place: widened(region.place), who: plain, rights, origin });
    for (const i of denied) this.#deny(i, region, who, rights & ~this.#elements[i]!.rights, origin);
    if (region.place.scope === 'children') this.#denyAbove(element, region, who, rights);
  }

  /** The step without the parts that earlier steps decide, and the earlier steps that need a rule to deny. */
  #narrowed(element: Element, at: number) {
    let { region, who, rights } = element;
    const denied: number[] = [];
    for (let i = 0; i < at; i++) {
      const before = this.#elements[i]!;
      if ((rights & ~before.rights) === 0 || isApart(before, region, who)) continue;
      if (before.unsure !== undefined) this.#tellHeldBack(before, element);
      const allOfIt = regionContains(before.region, region);
      const allOfThem = whoContains(before.who, who);
      if (allOfIt && allOfThem) {
        rights &= before.rights;
        if (before.unsure === undefined || rights === NO_RIGHTS) return undefined;
        continue;
      }
      const fewer = allOfIt ? whoWithout(who, before.who) : undefined;
      if (fewer && plainWho(fewer)) {
        who = fewer;
        continue;
      }
      const less = allOfThem ? regionWithout(region, before.region, this.#bits) : undefined;
      if (less) region = less;
      else denied.push(i);
    }
    return { region, who, rights, denied };
  }

  #tellHeldBack({ origin, unsure }: Element, later: Element): void {
    const [of, to] = [origin.line, later.origin.line];
    const what = of === to ? 'what stands behind it here' : `line ${to}`;
    this.#report.less(of, this.#loss ?? `${unsure}: ${what} gives less for that`);
  }

  /** A rule for the children of an entry becomes a rule for its subtree. Adds denials for the entry itself. */
  #denyAbove(element: Element, region: Region, who: WhoSet, rights: RightSet): void {
    const above: Region = { ...region, place: { scope: 'base', name: region.place.name } };
    this.#elements.forEach((other, i) => {
      const extra = rights & ~other.rights;
      if (other !== element && extra !== NO_RIGHTS && !isApart(other, above, who))
        this.#deny(i, above, who, extra, element.origin);
    });
    const all = { ...above, place: EVERYWHERE, filters: [] };
    const end: Element = {
      region: all,
      who: EVERYBODY,
      first: EVERYBODY,
      rights: NO_RIGHTS,
      unsure: undefined,
      origin: element.origin,
    };
    this.#denyFor(end, this.#elements.length, above, who, rights, element.origin);
  }

  #deny(at: number, given: Region, to: WhoSet, extra: RightSet, stops: Origin): void {
    this.#denyFor(this.#elements[at]!, at, given, to, extra, stops);
  }

  /** Denies in region `given` the rights `extra` that `step` does not grant, except where steps before it decide. */
  #denyFor(step: Element, at: number, given: Region, to: WhoSet, extra: RightSet, stops: Origin): void {
    let region = regionInBoth(step.region, given);
    if (!region) return;
    const both = whoInBoth(step.who, to);
    let who = both === 'unknown' ? step.who : both;
    for (let i = 0; who && i < at; i++) {
      const before = this.#elements[i]!;
      if ((before.rights & extra) === 0 || isApart(before, region, who)) continue;
      if (before.unsure !== undefined) {
        this.#tellLost(before, step, stops);
        continue;
      }
      if (regionContains(before.region, region)) {
        const fewer = whoWithout(who, before.who);
        if (!fewer) return;
        if (plainWho(fewer)) {
          who = fewer;
          continue;
        }
      } else if (whoContains(before.who, who)) {
        const less = regionWithout(region, before.region, this.#bits);
        if (less) {
          region = less;
          continue;
        }
      }
      this.#tellLost(before, step, stops);
    }
    if (who) this.#pushDenial(step, region, who, extra, stops);
  }

  #pushDenial(step: Element, region: Region, who: WhoSet, rights: RightSet, stops: Origin): void {
    const plain = this.#plainAtLeast(who, step, stops);
    let { attributes } = region;
    if (!this.#bits.words(attributes)) {
      attributes |= attributes & this.#bits.secret ? this.#bits.secret : this.#bits.plain;
      this.#tellWiderDenial(step, { ...region, attributes }, who, rights, stops);
    }
    if (region.place.scope === 'children')
      this.#tellWiderDenial(step, { ...region, place: { ...region.place, scope: 'base' } }, who, rights, stops);
    const place = widened(region.place);
    this.drafts.push({ kind: 'deny', ...region, attributes, place, who: plain, rights, origin: step.origin, stops });
  }

  /** Drops conditions `not` until one is left, since a rule has only one. The result may match more askers. */
  #plainAtLeast(who: WhoSet, step: Element, stops: Origin) {
    for (let nots = who.nots; ; nots = nots.slice(0, -1)) {
      const plain = plainWho({ ...who, nots });
      if (!plain) continue;
      if (nots.length < who.nots.length)
        this.#report.less(
          step.origin.line,
          this.#loss ??
            `what it stops of line ${stops.line} is stopped for some more, since a rule has one 'not' alone`,
        );
      return plain;
    }
  }

  #tellWiderDenial(step: Element, region: Region, who: WhoSet, rights: RightSet, stops: Origin): void {
    for (const other of this.#elements)
      if (other !== step && other.rights & rights && !isApart(other, region, who)) this.#tellLost(other, step, stops);
  }

  #tellLost(lost: Element, step: Element, stops: Origin): void {
    const [of, to] = [lost.origin.line, stops.line];
    const there = step.origin.line === of ? '' : ` where line ${step.origin.line} is about the same`;
    const what = to === of ? 'another part of this line' : `line ${to}`;
    const why = `it gives less${there}: no rule can stop what ${what} gives there, and leave this`;
    this.#report.less(of, this.#loss ?? why);
  }
}

function isApart(element: Element, region: Region, who: WhoSet): boolean {
  return !element.first || areApart(element.first, who) || !regionInBoth(element.region, region);
}

function widened(place: Place): Place {
  return place.scope === 'children' ? { ...place, scope: 'subtree' } : place;
}
