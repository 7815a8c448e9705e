import { connect, createServer, type Server, type Socket } from 'node:net';

/** Stands between clients and one server: passes bytes on, holds them back, cuts connections, refuses new ones. */
export class Relay {
  readonly #listener: Server;
  readonly #pairs = new Set<{ client: Socket; server: Socket }>();
  /** Milliseconds that every piece of data waits, in both directions. */
  delay = 0;
  /** New connections are cut at once. */
  refusing = false;
  /** Answers are swallowed: what is asked is done, but the client never hears of it. */
  deaf = false;
  /** Pieces of answers that were. */
  swallowed = 0;
  passed = 0;

  private constructor(target: string) {
    const colon = target.lastIndexOf(':');
    const [host, port] = [target.slice(0, colon), Number(target.slice(colon + 1))];
    this.#listener = createServer((client) => {
      if (this.refusing) {
        client.destroy();
        return;
      }
      const pair = { client, server: connect({ host, port, noDelay: true }) };
      this.#pairs.add(pair);
      const end = () => {
        client.destroy();
        pair.server.destroy();
        this.#pairs.delete(pair);
      };
      for (const socket of [client, pair.server]) socket.on('error', end).on('close', end);
      client.on('data', (bytes) => this.#pass(bytes, pair.server));
      pair.server.on('data', (bytes) => {
        if (this.deaf) this.swallowed++;
        else this.#pass(bytes, client);
      });
    });
  }

  static async before(target: string): Promise<Relay> {
    const relay = new Relay(target);
    await new Promise<void>((resolve) => relay.#listener.listen(0, '127.0.0.1', resolve));
    return relay;
  }

  get address(): string {
    return `127.0.0.1:${(this.#listener.address() as { port: number }).port}`;
  }

  cut(): void {
    for (const { client, server } of this.#pairs) {
      client.destroy();
      server.destroy();
    }
  }

  close(): void {
    this.cut();
    this.#listener.close();
  }

  #pass(bytes: Buffer | string, to: Socket): void {
    this.passed += bytes.length;
    if (this.delay === 0) to.write(bytes);
    else setTimeout(() => to.destroyed || to.write(bytes), this.delay);
  }
}
