/** A parsed `aci` value (389-DS, OpenDJ). */
export interface Aci {
  readonly targets: readonly AciTarget[];
  readonly name: string;
  readonly permissions: readonly AciPermission[];
}

export interface AciTarget {
  readonly key: string;
  readonly equal: boolean;
  readonly value: string;
}

export interface AciPermission {
  readonly kind: 'allow' | 'deny';
  readonly rights: readonly string[];
  readonly bind: BindRule;
}

export type BindRule =
  | { readonly type: 'and' | 'or'; readonly parts: readonly BindRule[] }
  | { readonly type: 'not'; readonly of: BindRule }
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
  let rest = text.trim();
  for (let found = TARGET.exec(rest); found; found = TARGET.exec(rest)) {
    const [all, key = '', operator, quoted, bare = ''] = found;
    targets.push({ key: key.toLowerCase(), equal: operator === '=', value: (quoted ?? bare).trim() });
    rest = rest.slice(all.length);
  }
  const [, name = '', body = ''] = VERSION.exec(rest) ?? [];
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
    bind: new BindParser(bind).all(),
  };
}

/** Parses a bind rule. `and` and `or` have equal precedence, from left to right; `not` binds tighter. */
class BindParser {
  #rest: string;

  constructor(text: string) {
    this.#rest = text.trim();
  }

  all(): BindRule {
    const rule = this.#rule(0);
    if (this.#rest !== '') throw new AciSyntaxError('its bind rule cannot be read to the end');
    return rule;
  }

  #take(pattern: RegExp): RegExpExecArray | null {
    const found = pattern.exec(this.#rest);
    if (found) this.#rest = this.#rest.slice(found[0].length);
    return found;
  }

  #rule(depth: number): BindRule {
    if (depth > MAX_DEPTH) throw new AciSyntaxError('its bind rule is nested too deep');
    let left = this.#part(depth);
    for (;;) {
      const word = this.#take(/^(and|or)\b\s*/i);
      if (!word) return left;
      const type = word[1]!.toLowerCase() as 'and' | 'or';
      left = { type, parts: [left, this.#part(depth)] };
    }
  }

  #part(depth: number): BindRule {
    if (depth > MAX_DEPTH) throw new AciSyntaxError('its bind rule is nested too deep');
    if (this.#take(/^not\b\s*/i)) return { type: 'not', of: this.#part(depth + 1) };
    if (this.#take(/^\(\s*/)) {
      const rule = this.#rule(depth + 1);
      if (!this.#take(/^\)\s*/)) throw new AciSyntaxError("a ')' is missing in its bind rule");
      return rule;
    }
    const item = this.#take(ITEM);
    if (!item) throw new AciSyntaxError('its bind rule is none');
    return { type: 'item', key: item[1]!.toLowerCase(), operator: item[2]!, value: item[3]!.trim() };
  }
}
