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

  #add(line: number, kind: RemarkKind, text: string): void {
    this.#remarks.set(`${line} ${kind} ${text}`, { line, kind, text });
  }

  left(line: number, text: string): void {
    this.#add(line, 'left', text);
  }

  less(line: number, text: string): void {
    this.#add(line, 'less', text);
  }

  secrets(line: number, text: string): void {
    this.#add(line, 'secrets', text);
  }

  differs(line: number, text: string): void {
    this.#add(line, 'differs', text);
  }

  said(line: number, text: string): void {
    this.#add(line, 'said', text);
  }

  /** Sorted by line. */
  remarks(): readonly Remark[] {
    return [...this.#remarks.values()].sort((a, b) => a.line - b.line);
  }
}
