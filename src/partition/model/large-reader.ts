import type { Reader, Snapshot, Store } from '../../store/contract.js';
import { cellValue, EMPTY } from '../../store/row.js';
import { StoreError } from '../../store/store-error.js';
import { isCurrentValue, largeLength, readChunks } from './large.js';
import { toLdapError } from './store-errors.js';
import { largeQualifiers, MASTER, MASTER_TABLE } from './tables.js';

/**
 * Reads the large values of one entry in chunks. On a store with snapshots all reads are from one snapshot; otherwise
 * `chunks` fails if the value is replaced meanwhile. Has to be closed.
 */
export class LargeReader {
  readonly #reader: Reader;
  readonly #snapshot: Snapshot | undefined;
  readonly #id: Buffer;
  readonly #row: Buffer;
  /** Qualifiers of the large values in `#row`. A value that was large for the caller may be short by now. */
  readonly #largeQualifiers: ReadonlySet<string> | undefined;

  private constructor(reader: Reader, snapshot: Snapshot | undefined, id: Buffer, row: Buffer) {
    this.#reader = reader;
    this.#snapshot = snapshot;
    this.#id = id;
    this.#row = row;
    this.#largeQualifiers = largeQualifiers(row);
  }

  static async open(store: Store, id: Buffer): Promise<LargeReader> {
    const snapshot = store.supports.snapshot ? store.snapshot() : undefined;
    const reader = snapshot ?? store;
    try {
      return new LargeReader(reader, snapshot, id, (await reader.get(MASTER_TABLE.name, id)) ?? EMPTY);
    } catch (error) {
      snapshot?.close();
      throw error;
    }
  }

  /** Returns the length of the value in bytes; 0 if the value does not exist any more. */
  valueLength(qualifier: Buffer): number {
    const value = cellValue(this.#row, MASTER.upAttributes, qualifier);
    if (!value) return 0;
    return this.#isLarge(qualifier) ? largeLength(value) : value.length;
  }

  #isLarge(qualifier: Buffer): boolean {
    return this.#largeQualifiers?.has(qualifier.toString('latin1')) === true;
  }

  /** Yields the chunks of the value in order, `valueLength` bytes together. Throws LDAP errors. */
  async *chunks(qualifier: Buffer): AsyncGenerator<Buffer, void, undefined> {
    try {
      yield* this.#readChunks(qualifier);
    } catch (error) {
      throw toLdapError(error);
    }
  }

  async *#readChunks(qualifier: Buffer): AsyncGenerator<Buffer, void, undefined> {
    const pointer = cellValue(this.#row, MASTER.upAttributes, qualifier);
    if (!pointer) return;
    if (!this.#isLarge(qualifier)) return yield pointer;
    const verify = this.#snapshot ? undefined : () => this.#requireUnchanged(qualifier, pointer);
    yield* readChunks(this.#reader, MASTER_TABLE.name, this.#id, qualifier, pointer, verify);
  }

  async #requireUnchanged(qualifier: Buffer, pointer: Buffer): Promise<void> {
    if (!(await isCurrentValue(this.#reader, MASTER_TABLE.name, this.#id, qualifier, pointer)))
      throw new StoreError('unavailable', 'a large value was replaced while it was read; read it again');
  }

  close(): void {
    this.#snapshot?.close();
  }
}
