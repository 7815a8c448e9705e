/**
 * What is to be told of a line. `left`: it could not be said in rules. `less`: the rules give less there. `secrets`:
 * they give less of secrets. `differs`: they may give what the line did not. `said`: nothing is lost, but it is good to
 * know.
 */
export type RemarkKind = 'left' | 'less' | 'secrets' | 'differs' | 'said';

export interface Remark {
  /** Of the source, from 1. */
  readonly line: number;
  readonly kind: RemarkKind;
  readonly text: string;
}

/** Remarks, each once. */
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

  /** By line. */
  remarks(): readonly Remark[] {
    return [...this.#remarks.values()].sort((a, b) => a.line - b.line);
  }
}
