import type { ResultName } from '../../ldap/ldap-error.js';
import { formatNumber } from '../exit.js';

/** Kinds that are counted separately. Further kinds are merged. */
const MAX_KINDS = 100;
const MAX_TEXT = 300;

const DEFAULT_REMEDY = 'correct these records';
/** Remedies for results whose message has none. */
const REMEDIES: Partial<Record<ResultName, string>> = {
  entryAlreadyExists: 'leave what is there, or delete it first',
  noSuchObject: 'import what is above it first',
  noSuchAttribute: 'the change is made already, or was meant for another entry',
};

interface RefusalKind {
  readonly reason: string;
  readonly line: number;
  count: number;
}

/** Counts refusals by kind. Numbers in reasons are ignored; beyond `MAX_KINDS` kinds, quoted texts too. */
export class RefusalCounts {
  readonly #kinds = new Map<string, RefusalKind>();

  add(line: number, reason: string): void {
    const text = reason.replace(/^line \d+: /, '');
    const exactKind = text.replaceAll(/\d+/g, '0');
    const broadKind = exactKind.replaceAll(/'[^']*'|"[^"]*"/g, "''");
    const { size } = this.#kinds;
    const key = size < MAX_KINDS ? exactKind : size < 2 * MAX_KINDS ? `like ${broadKind}` : '';
    const kind = this.#kinds.get(exactKind) ?? this.#kinds.get(`like ${broadKind}`) ?? this.#kinds.get(key);
    if (kind) kind.count++;
    else this.#kinds.set(key, { reason: key === '' ? 'other reasons' : text.slice(0, MAX_TEXT), line, count: 1 });
  }

  /** Returns a line of text for each kind, the most frequent first. */
  format(): string[] {
    const kinds = [...this.#kinds.values()].sort((a, b) => b.count - a.count || a.line - b.line);
    return kinds.map(({ reason, line, count }) => {
      const result = /^(\w+): /.exec(reason)?.[1] as ResultName | undefined;
      const remedy = reason.includes('; ') ? '' : `; ${(result && REMEDIES[result]) ?? DEFAULT_REMEDY}`;
      return `${formatNumber(count)} × ${reason}, the first at line ${line}${remedy}`;
    });
  }
}
