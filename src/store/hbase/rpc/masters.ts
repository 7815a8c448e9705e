import { EMPTY } from '../../row.js';
import { Failure } from './failure.js';
import type { MessageReader } from './protobuf.js';
import { Attempts, failureOrThrow, type Pauses } from './retry.js';
import type { RpcSettings } from './rpc-types.js';
import type { Servers } from './server.js';

/** Finds the server of hbase:meta and the active master. Asks the masters in order, the last responder first. */
export class Masters {
  readonly #settings: RpcSettings;
  readonly #servers: Servers;
  readonly #pauses: Pauses;
  #preferredIndex = 0;

  constructor(settings: RpcSettings, servers: Servers, pauses: Pauses) {
    if (settings.masters.length === 0) throw new TypeError('no masters to ask');
    this.#settings = settings;
    this.#servers = servers;
    this.#pauses = pauses;
  }

  /** Returns `host:port` of the server of hbase:meta. */
  metaServer(attempts: Attempts): Promise<string> {
    return this.#callFirst('GetMetaRegionLocations', attempts, (message) => {
      // GetMetaRegionLocationsResponse: meta_locations 1 of RegionLocation: region_info 1, server_name 2. The first
      // location is the primary; replicas follow.
      while (message.nextField(1)) {
        const location = message.message();
        if (location.nextField(2)) return readServerName(location.message());
      }
      return undefined;
    });
  }

  /** Calls the active master, repeatedly while there is none. For requests that may be repeated. */
  async call(method: string, request: Buffer): Promise<Buffer> {
    const attempts = new Attempts(this.#settings, this.#pauses);
    for (;;) {
      try {
        const master = await this.#callFirst('GetActiveMaster', attempts, (message) =>
          message.nextField(1) ? readServerName(message.message()) : undefined,
        );
        const { message } = await this.#servers
          .get(master, 'MasterService')
          .call(method, request, [], attempts.expiresAt);
        return Buffer.from(message.buffer.subarray(message.offset, message.end));
      } catch (error) {
        await attempts.pause(failureOrThrow(error), 'unknown');
      }
    }
  }

  /** Calls the masters one after another until `read` returns a server name from an answer. */
  async #callFirst(
    method: string,
    attempts: Attempts,
    read: (answer: MessageReader) => string | undefined,
  ): Promise<string> {
    let failure: Failure | undefined;
    const { masters } = this.#settings;
    for (let i = 0; i < masters.length; i++) {
      const index = (this.#preferredIndex + i) % masters.length;
      // Each master gets an equal share of the time left, so that a silent master does not use up all of it.
      const shareMs = (attempts.expiresAt - performance.now()) / (masters.length - i);
      try {
        const server = this.#servers.get(masters[index]!, 'ClientMetaService');
        const answer = await server.call(method, EMPTY, [], performance.now() + shareMs);
        const serverName = read(answer.message);
        if (serverName) {
          this.#preferredIndex = index;
          return serverName;
        }
        failure = new Failure(`${server.name}: ${method} gave nothing`, { isNotApplied: true });
      } catch (error) {
        const lastFailure = failureOrThrow(error);
        // A wrong address is final only if no other master may answer later.
        if (!failure || failure.traits.isFinal) failure = lastFailure;
      }
    }
    throw Failure.ofLookup('masters', failure!, hintFor(failure!));
  }
}

/** Returns a hint at what may be wrong with the address of a master that does not answer. */
function hintFor({ cause, traits }: Failure): string {
  if ((cause as NodeJS.ErrnoException | undefined)?.code === 'ECONNREFUSED')
    return "; is HBase's master running there?";
  return traits.isNeverAnswered ? "; is this the port of an HBase master? ZooKeeper's is another" : '';
}

/** Reads a ServerName: host_name 1, port 2, start_code 3. */
function readServerName(reader: MessageReader): string | undefined {
  let host = '';
  let port = 0;
  while (reader.next()) {
    if (reader.field === 1) host = reader.string();
    else if (reader.field === 2) port = reader.uint();
    else reader.skip();
  }
  return host && port ? `${host}:${port}` : undefined;
}
