import { expect } from 'chai';
import { uuidText } from '../../src/partition/index.js';
import { writeSequence } from '../../src/protocol/asn1.js';
import type { Control, ResponseMessage, SearchRequest } from '../../src/protocol/ldap-messages.js';
import { ControlOid, SYNC_INFO } from '../../src/protocol/oids.js';
import { Reader } from '../../src/protocol/reader.js';
import { BOOLEAN, ENUMERATED, OCTET_STRING, SEQUENCE } from '../../src/protocol/tags.js';
import { type RawClient, searchRequest } from './raw-client.js';

export function syncRequest(mode: number, cookie?: string): Control {
  const value = writeSequence((writer) => {
    writer.integer(ENUMERATED, mode);
    if (cookie !== undefined) writer.text(OCTET_STRING, cookie);
  });
  return { oid: ControlOid.syncRequest, critical: true, value };
}

const readerOf = (value: Buffer): Reader => new Reader(value, 0, value.length);
const STATES = ['present', 'add', 'modify', 'delete'];

/** State and entryUUID of a Sync State control. */
export function syncState(controls: readonly Control[] = []): { state: string; id: string } {
  const reader = readerOf(controls.find(({ oid }) => oid === ControlOid.syncState)!.value!);
  reader.enter(SEQUENCE, 'state');
  return { state: STATES[reader.enumerated('state', 3)]!, id: uuidText(reader.bytes('entryUUID')) };
}

/** Cookie and flag of a Sync Done control, or of a Sync Info message with `tag`. */
function cookieAnd(value: Buffer, tag: number, byDefault: boolean): { cookie: string; flag: boolean } {
  const reader = readerOf(value);
  reader.enter(tag, 'value');
  const cookie = reader.peek() === OCTET_STRING ? reader.text('cookie') : '';
  return { cookie, flag: reader.peek() === BOOLEAN ? reader.boolean('flag') : byDefault };
}

export type Copy = Map<string, { readonly dn: string; readonly attributes: ReadonlyMap<string, readonly string[]> }>;

/** A consumer (RFC 4533) that keeps a copy as the RFC has it, and fails when the server breaks its words. */
export class SyncConsumer {
  readonly copy: Copy = new Map();
  cookie = '';
  /** States and kinds of messages since the last call of `heard`. */
  #log: string[] = [];
  #isRefreshing = false;
  /** Entries that the refresh has sent. */
  readonly #present = new Set<string>();
  #id = 0;
  #client: RawClient | undefined;
  readonly #request: SearchRequest;

  constructor(base: string, parts: Partial<SearchRequest> = {}) {
    this.#request = searchRequest(base, { scope: 'sub', attributes: ['*', '+'], ...parts });
  }

  /** What came since the last call: `add DN`, `delete`, `newcookie`, `done 0`, … */
  heard(): string[] {
    return this.#log.splice(0);
  }

  /** One refresh; the result code. A refresh that ends with success has brought the copy up to date. */
  async refresh(client: RawClient): Promise<number> {
    this.#begin(client, 1);
    for (;;) {
      const code = await this.#takeOne();
      if (code !== undefined) return code;
    }
  }

  /** Begins refreshAndPersist. Resolves when the refresh is done. */
  async persist(client: RawClient): Promise<void> {
    this.#begin(client, 3);
    while (this.#isRefreshing) expect(await this.#takeOne(), 'the refresh was cut short').to.equal(undefined);
  }

  /** Takes messages until `isDone`. */
  async until(isDone: (copy: Copy) => boolean): Promise<void> {
    while (!isDone(this.copy)) expect(await this.#takeOne()).to.equal(undefined);
  }

  /** Takes messages until a cookie has come with this CSN or a later one. */
  async untilCsn(csn: string): Promise<void> {
    await this.until(() => this.csn >= csn);
  }

  get csn(): string {
    return /csn=(?:.*;)?(.*)/.exec(this.cookie)?.[1] ?? '';
  }

  /** Takes messages until the operation ends; its result code. */
  async end(): Promise<number> {
    for (;;) {
      const code = await this.#takeOne();
      if (code !== undefined) return code;
    }
  }

  get operation(): number {
    return this.#id;
  }

  #begin(client: RawClient, mode: number): void {
    this.#client = client;
    this.#isRefreshing = true;
    this.#present.clear();
    const manage = { oid: ControlOid.manageDsaIT, critical: true, value: undefined };
    this.#id = client.send(this.#request, [syncRequest(mode, this.cookie || 'rid=007'), manage]);
  }

  /** Takes one message; the result code of the last one. */
  async #takeOne(): Promise<number | undefined> {
    const message = await this.#client!.take(this.#id);
    if (!message) throw new Error('the connection ended');
    const { response } = message;
    if (response.op === 'searchEntry') this.#takeEntry(message);
    else if (response.op === 'intermediate') this.#takeInfo(response.oid, response.value!);
    else if ('code' in response) {
      this.#log.push(`done ${response.code}`);
      const done = message.controls?.find(({ oid }) => oid === ControlOid.syncDone);
      if (response.code === 0) {
        const { cookie, flag } = cookieAnd(done!.value!, SEQUENCE, false);
        this.#endRefresh(cookie, flag);
      } else expect(done, 'a search that fails ends no refresh').to.equal(undefined);
      return response.code;
    } else expect.fail(response.op);
    return undefined;
  }

  #takeEntry({ response, controls }: ResponseMessage): void {
    if (response.op !== 'searchEntry') return;
    const { state, id } = syncState(controls);
    this.#log.push(response.dn === '' ? state : `${state} ${response.dn}`);
    if (state === 'delete') {
      expect(response.attributes).to.deep.equal([]);
      this.copy.delete(id);
      return;
    }
    if (this.#isRefreshing) expect(state).to.equal('add');
    this.#present.add(id);
    const attributes = response.attributes.map(({ type, values }) => [type, values.map(String).sort()] as const);
    this.copy.set(id, { dn: response.dn, attributes: new Map(attributes) });
  }

  #takeInfo(oid: string | undefined, value: Buffer): void {
    expect(oid).to.equal(SYNC_INFO);
    if (value[0] === 0x80) {
      this.#log.push('newcookie');
      expect(this.#isRefreshing).to.equal(false);
      this.#adopt(readerOf(value).text('cookie', 0x80));
      return;
    }
    this.#log.push(value[0] === 0xa1 ? 'refreshDelete' : 'refreshPresent');
    const { cookie, flag } = cookieAnd(value, value[0]!, true);
    expect(flag, 'refreshDone').to.equal(true);
    expect(this.#isRefreshing, 'one refreshDone').to.equal(true);
    this.#endRefresh(cookie, value[0] === 0xa1);
  }

  #endRefresh(cookie: string, refreshDeletes: boolean): void {
    this.#isRefreshing = false;
    if (!refreshDeletes) for (const id of [...this.copy.keys()]) if (!this.#present.has(id)) this.copy.delete(id);
    if (cookie === this.cookie) return;
    this.#adopt(cookie);
  }

  #adopt(cookie: string): void {
    expect(cookie).to.match(/^rid=007,csn=(?:[^;]{40};)?\d{14}\.\d{6}Z#[\da-f]{6}#fff#[\da-f]{6}$/);
    const { csn } = this;
    this.cookie = cookie;
    expect(this.csn >= csn, `${this.csn} after ${csn}`).to.equal(true);
  }
}
