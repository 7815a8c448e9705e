/** Where a piece of work comes from. */
export interface Source {
  /** Network that it came through. */
  readonly network: string;
  /** Who it is for. */
  readonly identity: string;
}

type Rota<T> = Map<string, T>;

/**
 * Waits in ranks: whatever has a lower rank goes first, but for every `GUARD`th turn, which is the highest rank's, so
 * that none waits for ever. Within a rank networks take turns, within a network identities, and of one identity the
 * first comes first. Bounded: no network has more than half of the room.
 */
export class FairQueue<T> {
  readonly #room: number;
  readonly #ranks: Rota<Rota<T[]>>[];
  readonly #ofNetwork = new Map<string, number>();
  #size = 0;
  #turns = 0;

  constructor(ranks: number, room: number) {
    this.#room = room;
    this.#ranks = Array.from({ length: ranks }, () => new Map());
  }

  get size(): number {
    return this.#size;
  }

  /** False where there is no room. */
  push({ network, identity }: Source, rank: number, item: T): boolean {
    const mine = this.#ofNetwork.get(network) ?? 0;
    if (this.#size >= this.#room || mine * 2 >= this.#room) return false;
    const identities = having(this.#ranks[rank]!, network, () => new Map<string, T[]>());
    having(identities, identity, () => []).push(item);
    this.#ofNetwork.set(network, mine + 1);
    this.#size++;
    return true;
  }

  shift(): T | undefined {
    if (this.#size === 0) return undefined;
    const last = ++this.#turns % GUARD === 0;
    const rank = last ? this.#ranks.findLast((one) => one.size > 0)! : this.#ranks.find((one) => one.size > 0)!;
    const [network, identities] = next(rank);
    const [, items] = next(identities);
    const item = items.shift()!;
    endTurn(identities, items.length > 0);
    endTurn(rank, identities.size > 0);
    const left = this.#ofNetwork.get(network)! - 1;
    if (left === 0) this.#ofNetwork.delete(network);
    else this.#ofNetwork.set(network, left);
    this.#size--;
    return item;
  }
}

const GUARD = 8;

function having<V>(map: Map<string, V>, key: string, make: () => V): V {
  let value = map.get(key);
  if (value === undefined) {
    value = make();
    map.set(key, value);
  }
  return value;
}

function next<V>(rota: Rota<V>): [string, V] {
  return rota.entries().next().value!;
}

/** Whoever had its turn goes to the end, or away. */
function endTurn<V>(rota: Rota<V>, stays: boolean): void {
  const [key, value] = next(rota);
  rota.delete(key);
  if (stays) rota.set(key, value);
}
