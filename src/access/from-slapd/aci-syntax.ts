/** A parsed `aci` value (389-DS, OpenDJ). */
export interface Aci {
  readonly targets: readonly AciTarget[];
  readonly name: string;
  readonly permissions: readonly AciPermission[];
}

export interface AciTarget {
  readonly key: string;
  readonly isEqual: boolean;
  readonly value: string;
}

export interface AciPermission {
  readonly kind: 'allow' | 'deny';
  readonly rights: readonly string[];
  readonly bind: BindRule;
}

export type BindRule =
  | { readonly type: 'and' | 'or'; readonly rules: readonly BindRule[] }
  | { readonly type: 'not'; readonly inner: BindRule }
  | BindItem;

export interface BindItem {
  readonly type: 'item';
  readonly key: string;
  readonly operator: string;
  readonly value: string;
}

/** A syntax error in an `aci` value. The message describes the error. */
export class AciSyntaxError extends Error {
  override readonly name = 'AciSyntaxError';
}

const TARGET = /^\(\s*([a-z]+)\s*(!?=)\s*(?:"([^"]*)"|([^()"]*))\s*\)\s*/i;
const VERSION = /^\(\s*version\s+3\.0\s*;\s*ac[il]\s*"?([^";]*)"?\s*;(.*)\)\s*$/is;
const PERMISSION = /^(allow|deny)\s*\(([^)]*)\)\s*(.*)$/is;
const ITEM = /^([a-z]+)\s*(!=|>=|<=|=|>|<)\s*"([^"]*)"\s*/i;
const MAX_DEPTH = 50;

export function parseAci(text: string): Aci {
  const targets: AciTarget[] = [];
  let remainingText = text.trim();
  for (let targetMatch = TARGET.exec(remainingText); targetMatch; targetMatch = TARGET.exec(remainingText)) {
    const [all, key = '', operator, quoted, bare = ''] = targetMatch;
    targets.push({ key: key.toLowerCase(), isEqual: operator === '=', value: (quoted ?? bare).trim() });
    remainingText = remainingText.slice(all.length);
  }
  const [, name = '', body = ''] = VERSION.exec(remainingText) ?? [];
  if (body === '') throw new AciSyntaxError('there is no \'(version 3.0; acl "name"; …)\' behind the targets');
  return { targets, name, permissions: statements(body).map(parsePermission) };
}

/** Splits at semicolons outside of quotes. */
function statements(body: string): string[] {
  return (body.match(/(?:"[^"]*"|[^;"])+/g) ?? []).map((one) => one.trim()).filter((one) => one !== '');
}

function parsePermission(text: string): AciPermission {
  const [, kind = '', rights = '', bind = ''] = PERMISSION.exec(text) ?? [];
  if (kind === '') throw new AciSyntaxError("a permission begins by 'allow (…)' or 'deny (…)'");
  return {
    kind: kind.toLowerCase() as AciPermission['kind'],
    rights: rights.split(',').map((right) => right.trim().toLowerCase()),
    bind: new BindParser(bind).parseAll(),
  };
}

/** Parses a bind rule. `and` and `or` have equal precedence, from left to right; `not` binds tighter. */
class BindParser {
  #remainingText: string;

  constructor(text: string) {
    this.#remainingText = text.trim();
  }

  parseAll(): BindRule {
    const rule = this.#parseRule(0);
    if (this.#remainingText !== '') throw new AciSyntaxError('its bind rule cannot be read to the end');
    return rule;
  }

  #take(pattern: RegExp): RegExpExecArray | null {
    const match = pattern.exec(this.#remainingText);
    if (match) this.#remainingText = this.#remainingText.slice(match[0].length);
    return match;
  }

  #parseRule(depth: number): BindRule {
    if (depth > MAX_DEPTH) throw new AciSyntaxError('its bind rule is nested too deep');
    let leftRule = this.#parseTerm(depth);
    for (;;) {
      const operatorMatch = this.#take(/^(and|or)\b\s*/i);
      if (!operatorMatch) return leftRule;
      const type = operatorMatch[1]!.toLowerCase() as 'and' | 'or';
      leftRule = { type, rules: [leftRule, this.#parseTerm(depth)] };
    }
  }

  #parseTerm(depth: number): BindRule {
    if (depth > MAX_DEPTH) throw new AciSyntaxError('its bind rule is nested too deep');
    if (this.#take(/^not\b\s*/i)) return { type: 'not', inner: this.#parseTerm(depth + 1) };
    if (this.#take(/^\(\s*/)) {
      const rule = this.#parseRule(depth + 1);
      if (!this.#take(/^\)\s*/)) throw new AciSyntaxError("a ')' is missing in its bind rule");
      return rule;
    }
    const itemText = this.#take(ITEM);
    if (!itemText) throw new AciSyntaxError('its bind rule is none');
    return { type: 'item', key: itemText[1]!.toLowerCase(), operator: itemText[2]!, value: itemText[3]!.trim() };
  }
}
