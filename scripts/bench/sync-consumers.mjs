/**
 * Consumers of content synchronization (RFC 4533) in one process: PORT COUNT DN PASSWORD CSN. They begin behind a CSN,
 * read as fast as the server sends, and keep nothing. The process says `following` when all have their refresh, and
 * answers each message with the least CSN of their cookies and the number of entries that came.
 */
import { once } from 'node:events';
import { connect } from 'node:net';
import { encodeRequest } from '../../dist/src/protocol/encode.js';
import { Framer } from '../../dist/src/protocol/framing.js';
import { searchRequest, simpleBind } from '../../dist/test/server/raw-client.js';
import { syncRequest } from '../../dist/test/server/sync-consumer.js';
import { BASE } from './rows.mjs';

const [port, count, dn, password, csn] = process.argv.slice(2);
/** Tags of the responses, and where they are: behind the header of the message and a messageID of one byte. */
const ENTRY = 0x64;
const INTERMEDIATE = 0x79;
const AFTER_ID = 3;

class Consumer {
  csn = '';
  entryCount = 0;
  #framer = new Framer({ maxMessageBytes: 2 ** 24 });
  #socket = connect(Number(port), '127.0.0.1');

  async follow() {
    await once(this.#socket, 'connect');
    const refreshed = new Promise((resolve) => this.#socket.on('data', (chunk) => this.#take(chunk, resolve)));
    const search = searchRequest(BASE, { scope: 'sub', attributes: ['*', '+'] });
    this.#send(1, simpleBind(dn, password), []);
    // The server takes no request behind a bind before it is answered.
    await once(this.#socket, 'data');
    this.#send(2, search, [syncRequest(3, `rid=001,csn=${csn}`)]);
    await refreshed;
  }

  #send(id, request, controls) {
    this.#socket.write(encodeRequest({ id, request, controls }));
  }

  #take(chunk, onCookie) {
    this.#framer.push(chunk);
    for (let frame = this.#framer.next(); frame; frame = this.#framer.next()) {
      const { buffer, start, end } = frame;
      const lengthByte = buffer[start + 1];
      const tag = buffer[start + 2 + (lengthByte < 0x80 ? 0 : lengthByte & 0x7f) + AFTER_ID];
      if (tag === ENTRY) this.entryCount++;
      else if (tag === INTERMEDIATE) {
        this.csn = /csn=([^,]+Z#\w+#\w+#\w+)/.exec(buffer.latin1Slice(start, end))[1];
        onCookie();
      } else if (this.csn !== '') throw new Error(`the search has ended: ${buffer.latin1Slice(start, end)}`);
    }
  }
}

const consumers = Array.from({ length: Number(count) }, () => new Consumer());
await Promise.all(consumers.map((consumer) => consumer.follow()));
process.on('message', () => {
  const csns = consumers.map((consumer) => consumer.csn).sort();
  process.send({ csn: csns[0], entries: consumers.reduce((sum, { entryCount }) => sum + entryCount, 0) });
});
process.on('disconnect', () => process.exit());
process.send('following');
