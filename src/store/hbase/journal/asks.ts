import { counterBytes, EMPTY } from '../../row.js';
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

/** Who asks, how, the row's table, 0, the row's key. */
function askName(asker: Buffer, { table, key, exclusive }: WantedRow): Buffer {
  const how = Buffer.from([exclusive ? EXCLUSIVE : SHARED]);
  return Buffer.concat([asker, how, Buffer.from(`${table.spec.name}\0`, 'latin1'), key]);
}

/** The row that the ask's name has. */
export function askedRow(name: Buffer): { table: string; key: Buffer } {
  const at = name.indexOf(0, ID_BYTES + 1);
  return { table: name.toString('latin1', ID_BYTES + 1, at), key: name.subarray(at + 1) };
}

/** Bytes of asks in a page, about. */
const PAGE_BYTES = 256 * 1024;
/** `said` of a page, and of each ask the turn and the length of the name. */
const SAID_BYTES = 8;
const ASK_HEAD = 12;

/** Qualifier of a page: who asks, and its number. */
function pageName(asker: Buffer, page: number): Buffer {
  const name = Buffer.allocUnsafe(ID_BYTES + 4);
  name.set(asker, 0);
  name.writeUInt32BE(page, ID_BYTES);
  return name;
}

/**
 * The asks of one front end are pages in the holder's journal row, cells that are written again and again and are empty
 * when nothing is asked any more: a region server that reads the row passes all that was deleted in it.
 */
function pagesOf(asks: readonly { readonly name: Buffer; readonly turn: bigint }[], said: bigint): Buffer[] {
  const pages: Buffer[] = [];
  let parts: Buffer[] = [];
  let bytes = 0;
  const close = (): void => {
    pages.push(Buffer.concat([counterBytes(said), ...parts]));
    parts = [];
    bytes = 0;
  };
  for (const { name, turn } of asks) {
    const head = Buffer.allocUnsafe(ASK_HEAD);
    head.writeBigUInt64BE(turn, 0);
    head.writeUInt32BE(name.length, 8);
    parts.push(head, name);
    bytes += ASK_HEAD + name.length;
    if (bytes > PAGE_BYTES) close();
  }
  if (parts.length > 0) close();
  return pages;
}

/** The asks of a page, the cell of this qualifier and value. */
export function parsePage(page: Buffer, value: Buffer): Ask[] {
  const asks: Ask[] = [];
  const said = value.subarray(0, SAID_BYTES);
  for (let at = SAID_BYTES; at < value.length; ) {
    const turn = value.readBigUInt64BE(at);
    const end = at + ASK_HEAD + value.readUInt32BE(at + 8);
    const name = value.subarray(at + ASK_HEAD, end);
    const { table, key } = askedRow(name);
    asks.push({ page, name, id: rowId(table, key), exclusive: name[ID_BYTES] === EXCLUSIVE, turn, said });
    at = end;
  }
  return asks;
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
  /** How many pages may have something in them. */
  pages = 0;
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

  /** The plan still wants what it has asked for, and did not come to ask: what is old is said again. */
  async again(turn: Turn): Promise<void> {
    const before = this.#clock.now() - this.#every;
    const old: Promise<boolean>[] = [];
    for (const [to, letter] of this.#letters) {
      const isOld = ({ turns, toldAt }: Wanted): boolean => turns.has(turn) && toldAt <= before;
      if ([...letter.wanted.values()].some(isOld)) old.push(this.#send(Buffer.from(to, 'latin1'), letter));
    }
    await Promise.all(old);
  }

  /** The plan wants nothing any more: whoever gives way to it gives way to who waits behind it, or to nobody. */
  withdraw(turn: Turn): void {
    for (const [to, letter] of this.#letters) {
      let changes = false;
      for (const wanted of letter.wanted.values())
        if (wanted.turns.delete(turn)) changes ||= wanted.turns.size === 0 || earliest(wanted) !== wanted.told;
      // What does not come through is heeded for a while, and then no more.
      if (changes) this.#send(Buffer.from(to, 'latin1'), letter).catch(() => undefined);
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
    const asks: { name: Buffer; turn: bigint }[] = [];
    const now = this.#clock.now();
    for (const [id, wanted] of letter.wanted) {
      const { name } = wanted;
      const turn = earliest(wanted);
      if (turn === undefined) letter.wanted.delete(id);
      else {
        asks.push({ name, turn });
        wanted.told = turn;
        wanted.toldAt = now;
      }
    }
    const pages = pagesOf(asks, ++this.#said);
    const count = pages.length;
    while (pages.length < letter.pages) pages.push(EMPTY);
    letter.pages = pages.length;
    let isAlive = false;
    try {
      isAlive = pages.length === 0 || (await this.#mutate(holder, pages));
      letter.pages = count;
    } finally {
      // Dead, or nobody knows whether it was told: whoever still wants something asks again.
      if (!isAlive) for (const wanted of letter.wanted.values()) wanted.told = undefined;
      if (letter.wanted.size === 0 && !letter.next) this.#letters.delete(holder.toString('latin1'));
    }
    return isAlive;
  }

  #mutate(key: Buffer, pages: readonly Buffer[]): Promise<boolean> {
    const put = pages.map((value, n) => ({ family: JOURNAL.ask, qualifier: pageName(this.#me, n), value }));
    // False after a lost answer, too, says that the holder is not alive, whether it was told before or not.
    return this.#cluster.swap(this.#cluster.journal, { key, guards: [IS_ALIVE], put, timestamp: FOREVER });
  }
}
