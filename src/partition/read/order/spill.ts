import { randomBytes } from 'node:crypto';
import { type FileHandle, open, unlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LdapError } from '../../../ldap/ldap-error.js';
import { EMPTY } from '../../../store/row.js';

/** Up to so many bytes are kept in memory. */
const MEMORY_BYTES = 256 * 1024;

/** The temporary files of all sorted searches of a process. */
export interface SpillRoom {
  usedBytes: number;
  readonly maxBytes: number;
}

/** Bytes that are appended, and then read: few in memory, more in a temporary file. */
export class Spill {
  length = 0;
  readonly #room: SpillRoom;
  /** The bytes that are not in the file. */
  #parts: Buffer[] = [];
  #partsLength = 0;
  /** A file without a name, which ends with the process at the latest. */
  #file: FileHandle | undefined;
  #fileBytes = 0;
  #written: Promise<void> | undefined;
  #isClosed = false;

  constructor(room: SpillRoom) {
    this.#room = room;
  }

  /** Takes the bytes over. Throws `adminLimitExceeded` if there is no room. */
  async append(bytes: Buffer): Promise<void> {
    this.#parts.push(bytes);
    this.#partsLength += bytes.length;
    this.length += bytes.length;
    if (this.#partsLength > MEMORY_BYTES) await this.#write();
  }

  #write(): Promise<void> {
    const bytes = Buffer.concat(this.#parts);
    this.#parts = [];
    this.#partsLength = 0;
    this.#written = this.#writeBytes(bytes);
    return this.#written;
  }

  async #writeBytes(bytes: Buffer): Promise<void> {
    const room = this.#room;
    try {
      if (room.usedBytes + bytes.length > room.maxBytes) throw new Error('limits.sortBytes is reached');
      this.#file ??= await openNameless();
      room.usedBytes += bytes.length;
      this.#fileBytes += bytes.length;
      await this.#file.appendFile(bytes);
    } catch (cause) {
      const problem =
        'there is no room to sort so many entries; ask for fewer, or in the order of an indexed attribute';
      throw new LdapError('adminLimitExceeded', problem, { cause });
    }
  }

  /** Reads the bytes `[start, end)`, as far as there are so many. Throws `unwillingToPerform` once it is closed. */
  async read(start: number, end: number): Promise<Buffer> {
    if (this.#isClosed)
      throw new LdapError('unwillingToPerform', 'the order of the entries is no longer kept; search again');
    if (this.#file && this.#partsLength > 0) void this.#write();
    await this.#written;
    if (this.#parts.length > 1) this.#parts = [Buffer.concat(this.#parts)];
    if (!this.#file) return (this.#parts[0] ?? EMPTY).subarray(start, end);
    const bytes = Buffer.allocUnsafe(Math.max(0, Math.min(end, this.length) - start));
    const { bytesRead } = await this.#file.read(bytes, 0, bytes.length, start);
    return bytes.subarray(0, bytesRead);
  }

  /** Removes the file. Reads that have begun end first. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#room.usedBytes -= this.#fileBytes;
    this.#parts = [];
    await this.#file?.close();
  }
}

/** Opens a new file that only this process can read, and removes its name. */
async function openNameless(): Promise<FileHandle> {
  const path = join(tmpdir(), `rowan-sort-${randomBytes(12).toString('hex')}`);
  const file = await open(path, 'wx+', 0o600);
  await unlink(path);
  return file;
}
