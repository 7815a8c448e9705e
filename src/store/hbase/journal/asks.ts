import type { Cell, CellName } from '../../contract.js';
import { counterBytes } from '../../row.js';
import type { Cluster, OpenTable } from '../cluster.js';
import type { Clock } from './clock.js';
import { ID_BYTES } from './codec.js';
import { rowId } from './groups.js';
import { FOREVER, IS_ALIVE, JOURNAL } from './journal-tables.js';
import type { Ask, Turn, Want } from './turns.js';

/** A row that a plan wants of others. */
export interface WantedRow extends Want {
  readonly table: OpenTable;
  readonly key: Buffer;
}

const EXCLUSIVE = 0x58;
const SHARED = 0x53;

/** An ask is a cell in the holder's journal row. Its name: who asks, how, the row's table, 0, the row's key. */
function askName(asker: Buffer, { table, key, exclusive }: WantedRow): Buffer {
  const how = Buffer.from([exclusive ? EXCLUSIVE : SHARED]);
  return Buffer.concat([asker, how, Buffer.from(`${table.spec.name}\0`, 'latin1'), key]);
}

/** The row that the ask's name has. */
export function askedRow(name: Buffer): { table: string; key: Buffer } {
  const at = name.indexOf(0, ID_BYTES + 1);
  return { table: name.toString('latin1', ID_BYTES + 1, at), key: name.subarray(at + 1) };
}

/** Its value: the turn, and how often anything was said by then. */
export function parseAsk(name: Buffer, said: Buffer): Ask {
  const { table, key } = askedRow(name);
  return { name, id: rowId(table, key), exclusive: name[ID_BYTES] === EXCLUSIVE, turn: said.readBigUInt64BE(0), said };
}

/** A row that plans of this front end want of one holder. */
interface Wanted {
  readonly name: Buffer;
  readonly turns: Set<Turn>;
  /** The turn that the holder was told, and when. */
  told: bigint | undefined;
  toldAt: number;
}

function earliest({ turns }: Wanted): bigint | undefined {
  let least: bigint | undefined;
  for (const { number } of turns) if (number !== undefined && (least === undefined || number < least)) least = number;
  return least;
}

/** What is asked of one holder. */
class Letter {
  readonly wanted = new Map<string, Wanted>();
  /** Under way; and one that begins when that has ended, with all that is wanted by then. */
  sending: Promise<boolean> | undefined;
  next: Promise<boolean> | undefined;
}

/**
 * What this front end asks of others: for each row the earliest turn of its plans that wait for it. All rows that one
 * holder is asked for go in one mutation.
 */
export class Asks {
  readonly #cluster: Cluster;
  readonly #clock: Clock;
  readonly #every: number;
  readonly #me: Buffer;
  readonly #letters = new Map<string, Letter>();
  #said = 0n;

  constructor(cluster: Cluster, clock: Clock, every: number, me: Buffer) {
    this.#cluster = cluster;
    this.#clock = clock;
    this.#every = every;
    this.#me = me;
  }

  /** Asks the writer for the rows; false when it is not alive. Said again when it is asked again after a while. */
  ask(holder: Buffer, rows: readonly WantedRow[], turn: Turn): Promise<boolean> {
    const to = holder.toString('latin1');
    let letter = this.#letters.get(to);
    if (!letter) {
      letter = new Letter();
      this.#letters.set(to, letter);
    }
    const { wanted } = letter;
    let isTold = true;
    for (const row of rows) {
      const known = this.#wanted(wanted, row);
      known.turns.add(turn);
      isTold &&= known.told === earliest(known) && this.#clock.now() - known.toldAt < this.#every;
    }
    if (isTold) return letter.next ?? letter.sending ?? Promise.resolve(true);
    return this.#send(holder, letter);
  }

  #wanted(all: Map<string, Wanted>, row: WantedRow): Wanted {
    const name = askName(this.#me, row);
    const id = name.toString('latin1');
    let wanted = all.get(id);
    if (!wanted) {
      wanted = { name, turns: new Set(), told: undefined, toldAt: 0 };
      all.set(id, wanted);
    }
    return wanted;
  }

  /** The plan wants nothing any more. Who waits behind it is told of where it is asked for next. */
  withdraw(turn: Turn): void {
    for (const [to, letter] of this.#letters) {
      let left = false;
      for (const wanted of letter.wanted.values()) if (wanted.turns.delete(turn)) left ||= wanted.turns.size === 0;
      // What does not come through is heeded for a while, and then no more.
      if (left) this.#send(Buffer.from(to, 'latin1'), letter).catch(() => undefined);
    }
  }

  #send(holder: Buffer, letter: Letter): Promise<boolean> {
    if (!letter.sending) {
      letter.sending = this.#write(holder, letter).finally(() => {
        letter.sending = undefined;
      });
      return letter.sending;
    }
    letter.next ??= letter.sending
      .catch(() => undefined)
      .then(() => {
        letter.next = undefined;
        return this.#send(holder, letter);
      });
    return letter.next;
  }

  async #write(holder: Buffer, letter: Letter): Promise<boolean> {
    const put: Cell[] = [];
    const gone: CellName[] = [];
    const now = this.#clock.now();
    for (const [id, wanted] of letter.wanted) {
      const { name } = wanted;
      const turn = earliest(wanted);
      if (turn === undefined) {
        letter.wanted.delete(id);
        gone.push({ family: JOURNAL.ask, qualifier: name });
      } else {
        const value = Buffer.concat([counterBytes(turn), counterBytes(++this.#said)]);
        put.push({ family: JOURNAL.ask, qualifier: name, value });
        wanted.told = turn;
        wanted.toldAt = now;
      }
    }
    let isAlive = false;
    try {
      isAlive = put.length + gone.length === 0 || (await this.#mutate(holder, put, gone));
    } finally {
      // Dead, or nobody knows whether it was told: whoever still wants something asks again.
      if (!isAlive) for (const wanted of letter.wanted.values()) wanted.told = undefined;
      if (letter.wanted.size === 0 && !letter.next) this.#letters.delete(holder.toString('latin1'));
    }
    return isAlive;
  }

  #mutate(key: Buffer, put: readonly Cell[], gone: readonly CellName[]): Promise<boolean> {
    const { client, journal } = this.#cluster;
    return client.mutate(journal, { key, guards: [IS_ALIVE], put, delete: gone, timestamp: FOREVER, repeatable: true });
  }
}
