import hbase from 'hbase';
import { StoreError } from '../../store-error.js';
import type { TableDescriptor } from './descriptor.js';

const TIMEOUT_MS = 60_000;

/** A table as the gateway describes it; attributes by HBase's names. */
export interface ExistingTable {
  readonly attributes: Readonly<Record<string, string>>;
  readonly families: ReadonlyMap<string, Readonly<Record<string, string>>>;
}

/** A region server that is alive. */
export interface LiveServer {
  /** `host:port`. */
  readonly name: string;
  /** When it was started, ms: part of how HBase names it. */
  readonly startCode: number;
}

export interface ExistingRegion {
  /** HBase's full name of it. */
  readonly name: string;
  /** Time it was made, part of its name. */
  readonly id: number;
  /** `host:port` of its server. */
  readonly server: string;
  readonly start: Buffer;
  /** Empty: open. */
  readonly end: Buffer;
}

type Failure = Error & { code?: number | string; body?: string };

/** Tables over HBase's REST gateway, by way of npm `hbase`. Everything rejects with `StoreError`. */
export class Gateway {
  readonly #client: ReturnType<typeof hbase>;
  readonly #address: string;
  readonly #isGuessed: boolean;

  /**
   * `http://HOST:PORT[/PATH]` or https, whose certificate is verified. `isGuessed`: nobody gave the address, which its
   * errors say.
   */
  constructor(address: string, isGuessed: boolean) {
    const url = new URL(address);
    const secure = url.protocol === 'https:';
    this.#address = address;
    this.#isGuessed = isGuessed;
    this.#client = hbase({
      protocol: secure ? 'https' : 'http',
      host: url.hostname.replace(/^\[|\]$/g, ''),
      port: url.port === '' ? (secure ? 443 : 80) : Number(url.port),
      path: url.pathname,
      timeout: TIMEOUT_MS,
    });
    // The package switches the check off.
    this.#client.connection.options.rejectUnauthorized = true;
  }

  /** Names of all tables of the cluster. */
  async tables(): Promise<string[]> {
    const list = await this.#ask<readonly { name: string }[] | null>('tables', (done) => this.#client.tables(done));
    return (list ?? []).map(({ name }) => name);
  }

  /** Region servers that are alive. */
  async servers(): Promise<LiveServer[]> {
    const status = await this.#ask<unknown>('the state of the cluster', (done) => this.#client.status_cluster(done));
    if (isObject(status) && Array.isArray(status.LiveNodes) && status.LiveNodes.every(isLiveServer))
      return status.LiveNodes.map(({ name, startCode }) => ({ name, startCode }));
    throw new StoreError('unavailable', `HBase's REST gateway ${this.#address} does not say which servers there are`);
  }

  /** Undefined when there is no such table. */
  async describe(name: string): Promise<ExistingTable | undefined> {
    const schema = await this.#ask<unknown>(`table ${name}`, (done) => this.#client.table(name).schema(done), 404);
    return schema === undefined ? undefined : readSchema(name, schema);
  }

  /** Makes a table of one region. False when it was there. */
  async create(table: TableDescriptor): Promise<boolean> {
    const made = await this.#ask(
      'making a table',
      (done) => this.#client.table(table.name).create(body(table), done),
      304,
    );
    return made !== undefined;
  }

  /** Adds families; the table is out of service for a moment. */
  async addFamilies(table: TableDescriptor, names: readonly string[]): Promise<void> {
    const families = table.families.filter(({ name }) => names.includes(name));
    const change = body({ ...table, families });
    await this.#ask('adding a family', (done) => this.#client.table(table.name).update(change, done));
  }

  /** No error when there is no such table. */
  async drop(name: string): Promise<void> {
    await this.#ask('dropping a table', (done) => this.#client.table(name).delete(done), 404);
  }

  /** Undefined while some of them are on their way to another server: the gateway then answers 500. */
  async regions(name: string): Promise<ExistingRegion[] | undefined> {
    const client = this.#client;
    const answer = await this.#ask<unknown>(`table ${name}`, (done) => client.table(name).regions(done), 500);
    return answer === undefined ? undefined : readRegions(name, answer);
  }

  /** `absent`: a status that is no failure but the answer undefined. */
  #ask<T>(what: string, send: (done: (error: Failure | null, result: T) => void) => void, absent?: number) {
    return new Promise<T | undefined>((resolve, reject) => {
      send((error, result) => {
        if (!error) resolve(result);
        else if (absent !== undefined && error.code === absent) resolve(undefined);
        else reject(this.#failure(what, error));
      });
    });
  }

  #failure(what: string, error: Failure): StoreError {
    const gateway = `HBase's REST gateway ${this.#address}`;
    if (typeof error.code !== 'number') {
      const message = `${gateway} does not answer (${error.code ?? error.message}); ${this.#otherAddress()}`;
      return new StoreError('unavailable', message, { cause: error });
    }
    const reason = firstLine(error.body);
    const namespace = NO_NAMESPACE.exec(reason)?.[1];
    if (namespace !== undefined) return this.#noNamespace(namespace, error);
    // What is no exception of HBase's may be said by another server.
    const advice = EXCEPTION.test(reason) ? '' : `; ${this.#otherAddress()}`;
    const message = `${gateway}: ${what}: ${error.code}${reason === '' ? '' : ` ${reason}`}${advice}`;
    const code = error.code === 401 || error.code === 403 ? 'permission' : 'unavailable';
    return new StoreError(code, message, { cause: error });
  }

  #otherAddress(): string {
    const guessed = this.#isGuessed ? "its address was guessed from the first master's: " : '';
    return `${guessed}--hbase-rest (setting hbase.rest) gives another address`;
  }

  #noNamespace(name: string, cause: Failure): StoreError {
    const shell = `create_namespace '${name}'`;
    const message = `HBase has no namespace ${name}: give HBase's shell ${shell}, or curl -X POST ${this.#address}/namespaces/${name}`;
    return new StoreError('unavailable', message, { cause });
  }
}

const EXCEPTION = /Exception/;
const NO_NAMESPACE = /NamespaceNotFoundException: (\w+)$/;

/** The exception's own line, without Java's stack, and without its name where that is told twice. */
function firstLine(text: string | undefined): string {
  const lines = (text ?? '').split('\n').map((line) => line.trim());
  const line = lines.find((line) => EXCEPTION.test(line)) ?? lines[0] ?? '';
  return line.slice(0, 300).replace(/\b(\S+Exception): \1:/, '$1:');
}

function body({ attributes, families }: TableDescriptor): object {
  return { ...attributes, ColumnSchema: families.map(({ name, attributes }) => ({ name, ...attributes })) };
}

function texts(object: object): Record<string, string> {
  return Object.fromEntries(
    Object.entries(object).filter((pair): pair is [string, string] => typeof pair[1] === 'string'),
  );
}

function isLiveServer(node: unknown): node is LiveServer {
  return isObject(node) && typeof node.name === 'string' && typeof node.startCode === 'number';
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

function unreadable(name: string): StoreError {
  return new StoreError('unavailable', `HBase's REST gateway describes table ${name} in a way that is not understood`);
}

function readSchema(name: string, schema: unknown): ExistingTable {
  if (!isObject(schema) || !Array.isArray(schema.ColumnSchema)) throw unreadable(name);
  const families = new Map<string, Record<string, string>>();
  for (const family of schema.ColumnSchema) {
    if (!isObject(family) || typeof family.name !== 'string') throw unreadable(name);
    families.set(family.name, texts(family));
  }
  return { attributes: texts(schema), families };
}

function readRegions(name: string, answer: unknown): ExistingRegion[] {
  if (!isObject(answer) || !Array.isArray(answer.Region)) throw unreadable(name);
  return answer.Region.map((region: unknown) => {
    if (!isObject(region) || typeof region.id !== 'number') throw unreadable(name);
    const { name: full, id, startKey, endKey, location: server } = region;
    if (typeof startKey !== 'string' || typeof endKey !== 'string') throw unreadable(name);
    if (typeof full !== 'string' || typeof server !== 'string') throw unreadable(name);
    return { name: full, id, server, start: Buffer.from(startKey, 'base64'), end: Buffer.from(endKey, 'base64') };
  });
}
