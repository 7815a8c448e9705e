import { Sequence } from 'asn1js';
import { expect } from 'chai';
import type { Modification } from '../../src/ldap/ldap-types.js';
import { expectEnd, readInteger, readSequence, writeSequence } from '../../src/protocol/asn1.js';
import type { Control, Request } from '../../src/protocol/ldap-messages.js';
import { ABORTED_TRANSACTION, ControlOid, ExtendedOid } from '../../src/protocol/oids.js';
import { BOOLEAN, OCTET_STRING } from '../../src/protocol/tags.js';
import type { Answer, RawClient } from './raw-client.js';

/** A transaction that a client has begun (RFC 5805). */
export class ClientTransaction {
  readonly client: RawClient;
  readonly identifier: Buffer;
  /** messageIDs of its operations. */
  readonly ids: number[] = [];

  constructor(client: RawClient, identifier: Buffer) {
    this.client = client;
    this.identifier = identifier;
  }

  static async begin(client: RawClient): Promise<ClientTransaction> {
    const { final } = await client.request({ op: 'extended', oid: ExtendedOid.startTransaction, value: undefined });
    expect(final.code, final.message).to.equal(0);
    return new ClientTransaction(client, (final as { value: Buffer }).value);
  }

  get control(): Control {
    return { oid: ControlOid.transaction, critical: true, value: this.identifier };
  }

  async send(request: Request, controls: readonly Control[] = []): Promise<Answer> {
    const id = this.client.send(request, [this.control, ...controls]);
    this.ids.push(id);
    return this.client.answer(id);
  }

  async add(request: Request, controls: readonly Control[] = []): Promise<void> {
    const { final } = await this.send(request, controls);
    expect(final.code, final.message).to.equal(0);
  }

  end(commit = true): Promise<Answer> {
    return this.client.request({ op: 'extended', oid: ExtendedOid.endTransaction, value: this.endValue(commit) });
  }

  endValue(commit = true): Buffer {
    return writeSequence((writer) => {
      if (!commit) writer.boolean(BOOLEAN, false);
      writer.octetString(OCTET_STRING, this.identifier);
    });
  }

  async commit(): Promise<void> {
    const { final } = await this.end();
    expect(final.code, final.message).to.equal(0);
  }
}

/** The messageID of the operation that has failed; undefined: the answer names none. */
export function failedId({ final }: Answer): number | undefined {
  const { value } = final as { value?: Buffer };
  if (value === undefined) return undefined;
  const elements = readSequence(value, 'the value', 64 * 1024);
  const id = readInteger(elements[0], 'the value', 0, 0x7fffffff);
  if (!(elements[1] instanceof Sequence)) expectEnd(elements, 1, 'the value');
  return id;
}

export function modifyRequest(dn: string, ...changes: Modification[]): Request {
  return { op: 'modify', dn, changes };
}

/** Waits for an Aborted Transaction Notice, and returns the identifier in it. */
export async function abortedIdentifier(client: RawClient): Promise<Buffer | undefined> {
  const response = (await client.take(0))?.response;
  expect(response).to.include({ op: 'extendedResponse', oid: ABORTED_TRANSACTION });
  return (response as { value?: Buffer }).value;
}
