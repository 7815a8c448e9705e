import { Rota } from './rota.js';

/** Where a piece of work comes from. */
export interface Source {
  /** Network that it came through. */
  readonly network: string;
  /** Who it is for. */
  readonly identity: string;
  /** Stands for the connection that it came through. */
  readonly connection?: object | undefined;
  /** Nobody waits for it any more. */
  readonly gone?: boolean;
  /** Has `leave` called when that becomes so, until what it gives is called. */
  onceGone?(leave: () => void): () => void;
}

interface Place {
  readonly source: Source;
  readonly rank: number;
}

/**
 * Waits in ranks: whatever has a lower rank goes first, but for every `GUARD`th turn, which the other ranks share, so
 * that none waits for ever. Within a rank networks take turns, within a network identities, within an identity
 * connections, and of one connection the first comes first. In all ranks but the first, every second turn goes to the
 * latest comer, at each of these levels: nobody waits for all that came before him, nor for all that come after.
 *
 * Bounded: no network has more than half of the room. Where that is used up, who comes takes the place of one of a
 * higher rank, else of one of the identity that has most, or of the own connection that has most, if they have more
 * than the newcomer then has.
 */
export class FairQueue<T> {
  readonly #room: number;
  readonly #ranks: Rota<T>[];
  readonly #places = new Map<T, Place>();
  readonly #ofNetwork = new Map<string, number>();
  #turns = 0;

  constructor(ranks: number, room: number) {
    this.#room = room;
    this.#ranks = Array.from({ length: ranks }, () => new Rota<T>());
  }

  get size(): number {
    return this.#places.size;
  }

  /** What has no room: the item or one that waited; undefined where there is room for all. */
  push(source: Source, rank: number, item: T): T | undefined {
    const place = { source, rank };
    const mine = this.#ofNetwork.get(source.network) ?? 0;
    let out: T | undefined;
    if (mine * 2 >= this.#room) out = this.#instead(place);
    else if (this.size >= this.#room) out = this.#ofBiggest(mine);
    else return this.#enter(place, item);
    if (!out) return item;
    this.remove(out);
    this.#enter(place, item);
    return out;
  }

  #enter(place: Place, item: T): undefined {
    const { network } = place.source;
    this.#ranks[place.rank]!.push(pathOf(place), item);
    this.#places.set(item, place);
    this.#ofNetwork.set(network, (this.#ofNetwork.get(network) ?? 0) + 1);
  }

  /** One of the item's own network that makes room for it. */
  #instead({ rank, source: { network, identity, connection } }: Place): T | undefined {
    const own: Rota<T>[] = [];
    for (let other = this.#ranks.length - 1; other >= 0; other--) {
      const found = this.#ranks[other]!.at(network);
      if (found && other > rank) return found.last();
      if (found) own.push(found);
    }
    const most = biggest(own);
    const mine = own.flatMap((one) => one.at(identity) ?? []);
    if (most && most.size > sum(mine) + 1) return most.last();
    const connections = biggest(mine);
    const there = mine.flatMap((one) => one.at(connection) ?? []);
    return connections && connections.size > sum(there) + 1 ? connections.last() : undefined;
  }

  /** One of the network that has most, if it has more than `mine` and one. */
  #ofBiggest(mine: number): T | undefined {
    let most = '';
    let size = mine + 1;
    for (const [network, count] of this.#ofNetwork) if (count > size) [most, size] = [network, count];
    return size > mine + 1
      ? this.#ranks
          .findLast((one) => one.at(most))
          ?.at(most)
          ?.last()
      : undefined;
  }

  shift(): T | undefined {
    if (this.size === 0) return undefined;
    const turn = ++this.#turns;
    const [first, ...others] = this.#ranks.filter((one) => one.size > 0);
    const other = turn % GUARD === 0 ? others[(turn / GUARD) % others.length] : undefined;
    const rank = other ?? first!;
    const item = rank.shift(turn % 2 === 1 && rank !== this.#ranks[0]);
    this.#left(item, this.#places.get(item)!);
    return item;
  }

  /** Takes out one that waits. */
  remove(item: T): void {
    const place = this.#places.get(item);
    if (place && this.#ranks[place.rank]!.remove(pathOf(place), item)) this.#left(item, place);
  }

  #left(item: T, { source: { network } }: Place): void {
    this.#places.delete(item);
    const left = this.#ofNetwork.get(network)! - 1;
    if (left === 0) this.#ofNetwork.delete(network);
    else this.#ofNetwork.set(network, left);
  }
}

const GUARD = 8;

function pathOf({ source: { network, identity, connection } }: Place): readonly unknown[] {
  return [network, identity, connection];
}

/** The biggest of those right below. */
function biggest<T>(rotas: readonly Rota<T>[]): Rota<T> | undefined {
  let most: Rota<T> | undefined;
  for (const rota of rotas) {
    const one = rota.biggest();
    if (one && one.size > (most?.size ?? 0)) most = one;
  }
  return most;
}

function sum<T>(rotas: readonly Rota<T>[]): number {
  return rotas.reduce((size, one) => size + one.size, 0);
}
