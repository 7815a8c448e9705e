/** The used functions of the npm package `hbase`, which has no types: tables over the REST gateway. */
declare module 'hbase' {
  type Callback<T> = (error: (Error & { code?: number | string; body?: string }) | null, result: T) => void;

  interface GatewayOptions {
    protocol: 'http' | 'https';
    host: string;
    port: number;
    /** Prefix of every path. */
    path?: string;
    /** In milliseconds. */
    timeout?: number;
  }

  interface Table {
    /** Adds or changes families. The table is out of service meanwhile. */
    update(schema: object, callback: Callback<true | null>): void;
    schema(callback: Callback<unknown>): void;
    delete(callback: Callback<true | null>): void;
  }

  interface Client {
    table(name: string): Table;
    tables(callback: Callback<readonly { readonly name: string }[] | null>): void;
    status_cluster(callback: Callback<unknown>): void;
    readonly connection: { readonly options: { rejectUnauthorized: boolean } };
  }

  export default function hbase(options: GatewayOptions): Client;
}
