import hbase from 'hbase';
import { StoreError } from '../../store-error.js';
import type { TableDescriptor } from './descriptor.js';

const TIMEOUT_MS = 60_000;

/** A table as described by the gateway. Attributes have HBase's names. */
export interface ExistingTable {
  readonly attributes: Readonly<Record<string, string>>;
  readonly families: ReadonlyMap<string, Readonly<Record<string, string>>>;
}

type GatewayError = Error & { code?: number | string; body?: string };

/** Access to tables by HBase's REST gateway, with the npm package `hbase`. All errors are `StoreError`. */
export class Gateway {
  readonly #client: ReturnType<typeof hbase>;
  readonly address: string;
  readonly #isAddressGuessed: boolean;

  /** `address`: `http://HOST:PORT[/PATH]`, or https with verification. `isAddressGuessed`: for error messages. */
  constructor(address: string, isAddressGuessed: boolean) {
    const url = new URL(address);
    const isSecure = url.protocol === 'https:';
    this.address = address;
    this.#isAddressGuessed = isAddressGuessed;
    this.#client = hbase({
      protocol: isSecure ? 'https' : 'http',
      host: url.hostname.replace(/^\[|\]$/g, ''),
      port: url.port === '' ? (isSecure ? 443 : 80) : Number(url.port),
      path: url.pathname,
      timeout: TIMEOUT_MS,
    });
    // The package turns the verification of certificates off.
    this.#client.connection.options.rejectUnauthorized = true;
  }

  async tables(): Promise<string[]> {
    const list = await this.#request<readonly { name: string }[] | null>('tables', (done) => this.#client.tables(done));
    return (list ?? []).map(({ name }) => name);
  }

  /** Returns the number of running region servers. */
  async countServers(): Promise<number> {
    const status = await this.#request<unknown>('the state of the cluster', (done) =>
      this.#client.status_cluster(done),
    );
    if (isObject(status) && Array.isArray(status.LiveNodes)) return status.LiveNodes.length;
    throw new StoreError('unavailable', `HBase's REST gateway ${this.address} does not say which servers there are`);
  }

  /** Returns undefined for a missing table. */
  async describe(name: string): Promise<ExistingTable | undefined> {
    const schema = await this.#request<unknown>(`table ${name}`, (done) => this.#client.table(name).schema(done), 404);
    return schema === undefined ? undefined : readSchema(name, schema);
  }

  /** Adds families. The table is out of service for a moment. */
  async addFamilies(table: TableDescriptor, familyNames: readonly string[]): Promise<void> {
    const families = table.families.filter(({ name }) => familyNames.includes(name));
    const change = schemaBody({ ...table, families });
    await this.#request('adding a family', (done) => this.#client.table(table.name).update(change, done));
  }

  /** A missing table is no error. */
  async drop(name: string): Promise<void> {
    await this.#request('dropping a table', (done) => this.#client.table(name).delete(done), 404);
  }

  /** Sends a request to the gateway. `okCode`: a status code for which the result is undefined, not an error. */
  #request<T>(task: string, send: (done: (error: GatewayError | null, result: T) => void) => void, okCode?: number) {
    return new Promise<T | undefined>((resolve, reject) => {
      send((error, result) => {
        if (!error) resolve(result);
        else if (okCode !== undefined && error.code === okCode) resolve(undefined);
        else reject(this.#failure(task, error));
      });
    });
  }

  #failure(task: string, error: GatewayError): StoreError {
    const gateway = `HBase's REST gateway ${this.address}`;
    if (typeof error.code !== 'number') {
      const message = `${gateway} does not answer (${error.code ?? error.message}); ${this.#addressHint()}`;
      return new StoreError('unavailable', message, { cause: error });
    }
    const reason = firstLine(error.body);
    // A message without an exception of HBase may come from another kind of server, so the error hints at the address.
    const advice = EXCEPTION.test(reason) ? '' : `; ${this.#addressHint()}`;
    const message = `${gateway}: ${task}: ${error.code}${reason === '' ? '' : ` ${reason}`}${advice}`;
    const code = error.code === 401 || error.code === 403 ? 'permission' : 'unavailable';
    return new StoreError(code, message, { cause: error });
  }

  #addressHint(): string {
    const guessNote = this.#isAddressGuessed ? "its address was guessed from the first master's: " : '';
    return `${guessNote}--hbase-rest (setting hbase.rest) gives another address`;
  }
}

const EXCEPTION = /Exception/;

/** Returns the line of the exception without the Java stack trace, and without a repeated class name. */
function firstLine(text: string | undefined): string {
  const lines = (text ?? '').split('\n').map((line) => line.trim());
  const line = lines.find((line) => EXCEPTION.test(line)) ?? lines[0] ?? '';
  return line.slice(0, 300).replace(/\b(\S+Exception): \1:/, '$1:');
}

function schemaBody({ attributes, families }: TableDescriptor): object {
  return { ...attributes, ColumnSchema: families.map(({ name, attributes }) => ({ name, ...attributes })) };
}

function stringProperties(object: object): Record<string, string> {
  return Object.fromEntries(
    Object.entries(object).filter((pair): pair is [string, string] => typeof pair[1] === 'string'),
  );
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

function formatError(name: string): StoreError {
  return new StoreError('unavailable', `HBase's REST gateway describes table ${name} in a way that is not understood`);
}

function readSchema(name: string, schema: unknown): ExistingTable {
  if (!isObject(schema) || !Array.isArray(schema.ColumnSchema)) throw formatError(name);
  const families = new Map<string, Record<string, string>>();
  for (const family of schema.ColumnSchema) {
    if (!isObject(family) || typeof family.name !== 'string') throw formatError(name);
    families.set(family.name, stringProperties(family));
  }
  return { attributes: stringProperties(schema), families };
}
