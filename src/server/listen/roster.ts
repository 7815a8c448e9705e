/** An object that knows its index in a roster. The roster keeps the index up to date. */
export interface RosterMember {
  rosterIndex: number;
}

/**
 * A set of short-lived members. V8 links each outgrown hash table of a `Set` to the next one. Once a table is in the
 * old generation, all later tables and their former members stay in memory until a full garbage collection.
 */
export class Roster<T extends RosterMember> {
  readonly #members: T[] = [];

  get size(): number {
    return this.#members.length;
  }

  add(member: T): void {
    member.rosterIndex = this.#members.length;
    this.#members.push(member);
  }

  /** Removes a member. Does nothing when it is not in the roster. */
  delete(member: T): void {
    if (this.#members[member.rosterIndex] !== member) return;
    const lastMember = this.#members.pop()!;
    if (lastMember === member) return;
    this.#members[member.rosterIndex] = lastMember;
    lastMember.rosterIndex = member.rosterIndex;
  }

  /** Iterates over the members present when the iteration begins. */
  [Symbol.iterator](): IterableIterator<T> {
    return this.#members.slice().values();
  }
}
