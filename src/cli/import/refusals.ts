import type { ResultName } from '../../ldap/ldap-error.js';
import { formatCount } from '../exit.js';

/** Kinds that are told apart; what is of none of them is counted together. */
const MOST_KINDS = 100;
const MOST_TEXT = 300;

const CORRECT = 'correct these records';
/** What helps, where the reason itself does not say it. */
const REMEDIES: Partial<Record<ResultName, string>> = {
  undefinedAttributeType: 'define the attribute ("rowan schema set"), or take it out of the file',
  entryAlreadyExists: 'leave what is there, or delete it first',
  noSuchObject: 'import what is above it first',
  noSuchAttribute: 'the change is made already, or was meant for another entry',
};

interface Kind {
  readonly reason: string;
  readonly line: number;
  count: number;
}

/** Counts refusals by kind: reasons that differ only in numbers, and where they are many, in what is quoted. */
export class Refusals {
  readonly #kinds = new Map<string, Kind>();

  /** `line`: where the record begins. */
  add(line: number, reason: string): void {
    const text = reason.replace(/^line \d+: /, '');
    const fine = text.replaceAll(/\d+/g, '0');
    const coarse = fine.replaceAll(/'[^']*'|"[^"]*"/g, "''");
    const { size } = this.#kinds;
    const key = size < MOST_KINDS ? fine : size < 2 * MOST_KINDS ? `like ${coarse}` : '';
    const kind = this.#kinds.get(fine) ?? this.#kinds.get(`like ${coarse}`) ?? this.#kinds.get(key);
    if (kind) kind.count++;
    else this.#kinds.set(key, { reason: key === '' ? 'other reasons' : text.slice(0, MOST_TEXT), line, count: 1 });
  }

  /** A line of text for each kind, the commonest first. */
  lines(): string[] {
    const kinds = [...this.#kinds.values()].sort((a, b) => b.count - a.count || a.line - b.line);
    return kinds.map(({ reason, line, count }) => {
      const result = /^(\w+): /.exec(reason)?.[1] as ResultName | undefined;
      const remedy = reason.includes('; ') ? '' : `; ${(result && REMEDIES[result]) ?? CORRECT}`;
      return `${formatCount(count)} × ${reason}, the first at line ${line}${remedy}`;
    });
  }
}
