import { Failure } from './failure.js';
import type { Reader } from './protobuf.js';
import { Attempts, asFailure, type Pauses } from './retry.js';
import type { RpcSettings } from './rpc-types.js';
import type { Servers } from './server.js';

const NOTHING = Buffer.alloc(0);

/**
 * The masters' registry: where hbase:meta is and who is the active master, asked of any of the masters named in the
 * settings, the last one that answered first. Region servers answer too (`ClientMetaService` runs on both).
 */
export class Masters {
  readonly #settings: RpcSettings;
  readonly #servers: Servers;
  readonly #pauses: Pauses;
  #preferred = 0;

  constructor(settings: RpcSettings, servers: Servers, pauses: Pauses) {
    if (settings.masters.length === 0) throw new TypeError('no masters to ask');
    this.#settings = settings;
    this.#servers = servers;
    this.#pauses = pauses;
  }

  /** `host:port` of the server of hbase:meta. */
  metaServer(attempts: Attempts): Promise<string> {
    return this.#ask('GetMetaRegionLocations', attempts, (message) => {
      // GetMetaRegionLocationsResponse: meta_locations 1 of RegionLocation: region_info 1, server_name 2; replicas
      // follow.
      while (message.next()) {
        if (message.field !== 1) message.skip();
        else {
          const location = message.message();
          while (location.next()) {
            if (location.field === 2) return serverName(location.message());
            location.skip();
          }
        }
      }
      return undefined;
    });
  }

  /** Asks the active master; repeated while there is none or it is starting. For requests that may be repeated. */
  async call(method: string, request: Buffer): Promise<Buffer> {
    const attempts = new Attempts(this.#settings, this.#pauses);
    for (;;) {
      try {
        const master = await this.#ask('GetActiveMaster', attempts, (message) => {
          while (message.next()) {
            if (message.field === 1) return serverName(message.message());
            message.skip();
          }
          return undefined;
        });
        const { message } = await this.#servers
          .get(master, 'MasterService')
          .call(method, request, [], attempts.expires);
        return Buffer.from(message.buffer.subarray(message.at, message.end));
      } catch (e) {
        await attempts.pause(asFailure(e), 'unknown');
      }
    }
  }

  async #ask(method: string, attempts: Attempts, read: (message: Reader) => string | undefined): Promise<string> {
    let failure: Failure | undefined;
    const { masters } = this.#settings;
    for (let i = 0; i < masters.length; i++) {
      const at = (this.#preferred + i) % masters.length;
      // Each gets its share of the time, lest one that does not answer use it all.
      const share = (attempts.expires - performance.now()) / (masters.length - i);
      try {
        const server = this.#servers.get(masters[at]!, 'ClientMetaService');
        const answer = await server.call(method, NOTHING, [], performance.now() + share);
        const found = read(answer.message);
        if (found) {
          this.#preferred = at;
          return found;
        }
        failure = new Failure(`${server.name}: ${method} gave nothing`, { undone: true });
      } catch (e) {
        failure = asFailure(e);
      }
    }
    throw Failure.before('masters', failure!, adviceOn(failure!));
  }
}

/** What may be wrong with the address of a master that cannot be asked. */
function adviceOn({ cause, traits }: Failure): string {
  if ((cause as NodeJS.ErrnoException | undefined)?.code === 'ECONNREFUSED')
    return "; is HBase's master running there?";
  return traits.mute ? "; is this the port of an HBase master? ZooKeeper's is another" : '';
}

/** ServerName: host_name 1, port 2, start_code 3. */
function serverName(reader: Reader): string | undefined {
  let host = '';
  let port = 0;
  while (reader.next()) {
    if (reader.field === 1) host = reader.string();
    else if (reader.field === 2) port = reader.uint();
    else reader.skip();
  }
  return host && port ? `${host}:${port}` : undefined;
}
