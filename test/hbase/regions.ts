import { setTimeout as sleep } from 'node:timers/promises';
import type { HBaseClient } from '../../src/store/hbase/rpc/client.js';
import { MessageReader, MessageWriter } from '../../src/store/hbase/rpc/protobuf.js';
import type { TableHandle } from '../../src/store/hbase/rpc/rpc-types.js';
import { cellValue, EMPTY, unpackRow } from '../../src/store/row.js';

const META: TableHandle = { name: 'hbase:meta', families: ['info', 'ns', 'rep_barrier', 'table'] };
const ENCODED_REGION_NAME = 2;
/** However slow the machine is. */
const WAIT_MS = 300_000;
const POLL_MS = 50;

/** A row of hbase:meta. */
export interface MetaRow {
  /** Its key. */
  readonly name: Buffer;
  readonly id: number;
  readonly start: Buffer;
  readonly end: Buffer;
  /** `host:port`; undefined while no server has it. */
  readonly server: string | undefined;
  /** It was split, and waits for the master's janitor. */
  readonly isParent: boolean;
  /** It was made by a merge, and waits for the janitor, too. */
  readonly isMerged: boolean;
  readonly isOpen: boolean;
}

/** A table's regions as hbase:meta has them, and the master's ways with them. `table`: HBase's full name. */
export class TableRegions {
  readonly #client: HBaseClient;
  readonly #table: string;

  constructor(client: HBaseClient, table: string) {
    this.#client = client;
    this.#table = table;
  }

  async rows(): Promise<MetaRow[]> {
    // A run has hundreds of tables: the rows of this one alone.
    const range = { from: Buffer.from(`${this.#table},,`), to: Buffer.from(`${this.#table}-`) };
    const scan = this.#client.scan(META, range, { families: [0] });
    const found: MetaRow[] = [];
    for (let batch = await scan.next(); batch; batch = await scan.next())
      found.push(...batch.keys.map((name, i) => metaRow(name, batch.rows[i]!)));
    return found;
  }

  /** Those that hold rows, in key order. */
  async open(): Promise<MetaRow[]> {
    return (await this.rows()).filter(({ isOpen }) => isOpen);
  }

  /** Splits the region of the key at it, unless one begins there. */
  split(key: Buffer): Promise<void> {
    const isSplit = async (): Promise<boolean> => {
      const open = await this.open();
      return open.some(({ start }) => start.equals(key)) && open.some(({ end }) => end.equals(key));
    };
    return this.#ask(isSplit, 'SplitRegion', async () => {
      const region = await this.#of(key);
      await this.#clean([region]);
      const { id, start, end } = region;
      const table = new MessageWriter().string(1, 'default').string(2, this.#table);
      return new MessageWriter()
        .message(1, new MessageWriter().uint(1, id).message(2, table).bytes(3, start).bytes(4, end))
        .bytes(2, key);
    });
  }

  /** Moves the region of the key to another region server; gives its `host:port`. */
  async move(key: Buffer): Promise<string> {
    const { server: before } = await this.#of(key);
    let now: string | undefined;
    const moved = async (): Promise<boolean> => {
      now = (await this.#of(key)).server;
      return now !== before;
    };
    await this.#ask(moved, 'MoveRegion', async () => new MessageWriter().message(1, byName(await this.#of(key))));
    return now!;
  }

  /** Merges the region of the key with the one behind it, where there is one. */
  async merge(key: Buffer): Promise<void> {
    const { end } = await this.#of(key);
    if (end.length === 0) return;
    const merged = async (): Promise<boolean> => !(await this.#of(key)).end.equals(end);
    await this.#ask(merged, 'MergeTableRegions', async () => {
      const both = [await this.#of(key), await this.#of(end)];
      await this.#clean(both);
      const request = new MessageWriter();
      for (const region of both) request.message(1, byName(region));
      return request.bool(3, true);
    });
  }

  /** Has HBase's normalizer look at the table until it has made so many regions of those there are. */
  async normalize(count: number): Promise<void> {
    await this.#client.callMaster('SetNormalizerRunning', new MessageWriter().bool(1, true).finish());
    const table = new MessageWriter().string(1, 'default').string(2, this.#table);
    // While it merges some are not open, so all count.
    const left = async (): Promise<number> => (await this.rows()).filter(({ isParent }) => !isParent).length;
    await this.#ask(
      async () => (await left()) === count,
      'Normalize',
      async () => new MessageWriter().message(1, table),
    );
  }

  /**
   * Sends the janitor where one of them was merged: HBase refuses to split or merge it before, and the janitor comes by
   * himself every five minutes.
   */
  async #clean(regions: readonly MetaRow[]): Promise<void> {
    if (regions.some(({ isMerged }) => isMerged)) await this.#client.callMaster('RunCatalogScan', EMPTY);
  }

  /** The open region of the key. */
  async #of(key: Buffer): Promise<MetaRow> {
    const region = (await this.open()).find(
      ({ start, end }) => start.compare(key) <= 0 && (end.length === 0 || key.compare(end) < 0),
    );
    if (!region) throw new Error(`table ${this.#table} has no open region of the key`);
    return region;
  }

  /**
   * Asks the master until it is done: a daughter is neither split nor merged before it was compacted, and regions are
   * on their way.
   */
  async #ask(isDone: () => Promise<boolean>, method: string, request: () => Promise<MessageWriter>): Promise<void> {
    let last: unknown;
    for (const end = Date.now() + WAIT_MS; Date.now() < end; ) {
      try {
        if (await isDone()) return;
        await this.#client.callMaster(method, (await request()).finish());
        for (const soon = Date.now() + 20 * POLL_MS; Date.now() < soon; await sleep(POLL_MS))
          if (await isDone()) return;
      } catch (error) {
        last = error;
      }
      await sleep(POLL_MS);
    }
    throw new Error(`${method} of ${this.#table}: not in ${WAIT_MS / 1000} s`, { cause: last });
  }
}

function metaRow(name: Buffer, row: Buffer): MetaRow {
  const value = (qualifier: string): Buffer | undefined => cellValue(row, 0, Buffer.from(qualifier));
  const reader = new MessageReader(value('regioninfo')!, 4);
  let [id, isParent] = [0, false];
  let start: Buffer = EMPTY;
  let end: Buffer = EMPTY;
  while (reader.next()) {
    if (reader.field === 1) id = reader.uint();
    else if (reader.field === 3) start = reader.bytes();
    else if (reader.field === 4) end = reader.bytes();
    else if (reader.field === 5 || reader.field === 6) isParent = reader.bool() || isParent;
    else reader.skip();
  }
  const server = value('server')?.toString() || undefined;
  const isOpen = !isParent && server !== undefined && value('state')?.toString() === 'OPEN';
  const isMerged = unpackRow(row).some(({ qualifier }) => /^merge\d/.test(qualifier.toString('latin1')));
  return { name, id, start, end, server, isParent, isMerged, isOpen };
}

/** RegionSpecifier by the encoded name, which ends the region's name: `table,start,id.ENCODED.` */
function byName({ name }: MetaRow): MessageWriter {
  return new MessageWriter().uint(1, ENCODED_REGION_NAME).bytes(2, name.subarray(-33, -1));
}
