/**
 * Size of the responses of all connections that the clients have not received. A connection may have as many unsent
 * bytes as are free. So clients that do not read come to share the limit evenly, and a client that reads always finds
 * free bytes.
 */
export class UnsentTotal {
  limitBytes: number;
  bytes = 0;

  constructor(limit: number) {
    this.limitBytes = limit;
  }

  /** Unsent bytes that one connection may have now. */
  get freeBytes(): number {
    return this.limitBytes - this.bytes;
  }
}
