/**
 * Kinds of remarks about a source line. `left`: rules cannot express the line. `less`: the rules grant less. `secrets`:
 * the rules grant less on secrets. `differs`: the rules may grant more than the line. `said`: a hint; nothing is lost.
 */
export type RemarkKind = 'left' | 'less' | 'secrets' | 'differs' | 'said';

export interface Remark {
  /** Line in the source, from 1. */
  readonly line: number;
  readonly kind: RemarkKind;
  readonly text: string;
}

/** Collects remarks without duplicates. */
export class Report {
  readonly #remarks = new Map<string, Remark>();

  add(kind: RemarkKind, line: number, text: string): void {
    this.#remarks.set(`${line} ${kind} ${text}`, { line, kind, text });
  }

  /** Sorted by line. */
  remarks(): readonly Remark[] {
    return [...this.#remarks.values()].sort((a, b) => a.line - b.line);
  }
}
