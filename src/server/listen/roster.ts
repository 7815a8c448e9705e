/** What has a place in a roster, which the roster keeps up to date. */
export interface Seated {
  seat: number;
}

/**
 * Those who are there now, where they come and go quickly. A `Set` would do the same, but each time it makes room it
 * leaves a table behind that leads to its next one: once V8 has moved one of them to its old generation, all that come
 * after stay, with every member that they ever had, until the whole heap is marked.
 */
export class Roster<T extends Seated> {
  readonly #members: T[] = [];

  get size(): number {
    return this.#members.length;
  }

  add(member: T): void {
    member.seat = this.#members.length;
    this.#members.push(member);
  }

  /** Nothing happens where it is not there. */
  delete(member: T): void {
    if (this.#members[member.seat] !== member) return;
    const last = this.#members.pop()!;
    if (last === member) return;
    this.#members[member.seat] = last;
    last.seat = member.seat;
  }

  /** Those that are there when the iteration begins. */
  [Symbol.iterator](): IterableIterator<T> {
    return this.#members.slice().values();
  }
}
