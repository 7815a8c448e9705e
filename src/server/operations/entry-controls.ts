import { LdapError } from '../../ldap/ldap-error.js';
import type { DerefAliases } from '../../ldap/ldap-types.js';
import { isPromise, type Maybe } from '../../partition/index.js';
import type { ModifyOptions, WriteObserver, WrittenEntry } from '../../partition/model/directory-types.js';
import { versionOf } from '../../partition/model/tables.js';
import { entryOfMessage } from '../../protocol/controls/read-entry.js';
import type { Control, SearchRequest } from '../../protocol/ldap-messages.js';
import { ControlOid } from '../../protocol/oids.js';
import { Writer } from '../../protocol/writer.js';
import type { Dn } from '../../schema/schema-types.js';
import type { ReplyEntry } from '../entry/computed.js';
import type { Selection } from '../entry/selection.js';
import { viewerOf } from '../request/access.js';
import type { Context } from '../request/context.js';
import { extrasReader } from '../request/state-attributes.js';
import { NO_CONTROLS } from '../words/controls.js';
import { type Outcome, SUCCESS } from '../words/outcome.js';
import { ABSOLUTE_TRUE, search, searchParams, withExtras } from './search.js';

/** Longest entry in a response control, in bytes. The response is one message, which is made as a whole. */
const MAX_ENTRY = 16 * 1024 ** 2;
const NO_ATTRIBUTES = ['1.1'];
/** The most times that a compare is repeated because the entry has changed meanwhile. */
const MAX_TRIES = 200;

/**
 * Runs a write with the controls that look at its entry: assertion (RFC 4528), pre-read and post-read (RFC 4527), and
 * no-op. They see the states of the entry that the write replaces and stores. `write` passes the options on.
 */
export async function runWrite(
  context: Context,
  dn: Dn,
  write: (options: ModifyOptions) => Promise<unknown>,
): Promise<Outcome> {
  const { manageDsaIT, assertion, preRead, postRead, noOp, permissiveModify } = context.controls;
  const options = { manageDsaIT, isPermissive: permissiveModify };
  if (!assertion && !preRead && !postRead && !noOp) {
    await write(options);
    return SUCCESS;
  }
  const observer = new EntryControls(context, dn);
  await write({ ...options, observer });
  return { ...SUCCESS, controls: observer.responses() };
}

class EntryControls implements WriteObserver {
  readonly #context: Context;
  readonly #dn: Dn;
  #entryBefore: Buffer | undefined;
  #entryAfter: Buffer | undefined;

  constructor(context: Context, dn: Dn) {
    this.#context = context;
    this.#dn = dn;
  }

  /** Returns the response controls. The entry is absent if the client may not see it. */
  responses(): Control[] {
    const entries = [
      { oid: ControlOid.preRead, value: this.#entryBefore },
      { oid: ControlOid.postRead, value: this.#entryAfter },
    ];
    return entries.flatMap(({ oid, value }) => (value ? { oid, critical: false, value } : []));
  }

  async onFound(): Promise<void> {
    const { assertion, preRead } = this.#context.controls;
    if (!assertion && !preRead) return;
    const request = baseSearch(this.#context, this.#dn.text, 'never', preRead);
    await readEntry(this.#context, request, async (entry, selection) => {
      if (preRead) this.#entryBefore = await encodeEntry(this.#context, entry, selection);
    });
  }

  async onAllowed(written: WrittenEntry | undefined): Promise<void> {
    const { controls, services } = this.#context;
    const { assertion, postRead, noOp } = controls;
    if (written && !written.former && assertion) {
      // The target of an add is the new entry.
      const isTrue = services.partition.findVirtual(written, assertion, viewerOf(this.#context)) !== undefined;
      if (!isTrue) throw assertionError();
    }
    if (written && postRead) await this.#readWritten(written, postRead);
    if (noOp) throw new LdapError('noOperation', 'the operation would succeed; nothing is changed');
  }

  async #readWritten(written: WrittenEntry, attributes: readonly string[]): Promise<void> {
    const { services } = this.#context;
    this.#entryAfter = undefined;
    const reading = readingContext(this.#context);
    const request = baseSearch(this.#context, this.#dn.text, 'never', attributes);
    const selection = services.selections.forAttributes(request.attributes);
    const params = searchParams(reading, request, this.#dn, selection, viewerOf(this.#context), undefined);
    const hit = services.partition.findWritten(written, params);
    if (!hit) return;
    const readExtras = await extrasReader(reading, request, selection);
    const entry = withExtras(hit, await readExtras?.(hit));
    this.#entryAfter = await encodeEntry(this.#context, entry, selection);
  }
}

function assertionError(): LdapError {
  return new LdapError('assertionFailed', 'the assertion does not hold for the entry');
}

/** Throws `assertionFailed` if the base of a search does not match the assertion of the request (RFC 4528 §3). */
export async function requireAssertion(context: Context, { base, deref }: SearchRequest): Promise<void> {
  await readEntry(context, baseSearch(context, base, deref, undefined));
}

/** Runs a compare on the state of the entry for which the assertion of the request holds. */
export async function compareAsserted(context: Context, dn: string, compare: () => Maybe<Outcome>): Promise<Outcome> {
  const request = baseSearch(context, dn, 'never', undefined);
  for (let tries = 1; tries <= MAX_TRIES; tries++) {
    const version = await readEntry(context, request);
    const result = await compare();
    if ((await readEntry(context, request)) === version) return result;
  }
  throw new LdapError('busy', 'others keep changing the entry; try again');
}

/** Returns the search that reads an entry, if the assertion of the request holds for it. */
function baseSearch(
  { controls }: Context,
  base: string,
  deref: DerefAliases,
  attributes: readonly string[] = NO_ATTRIBUTES,
): SearchRequest {
  const limits = { sizeLimit: 0, timeLimit: 0, typesOnly: false };
  const filter = controls.assertion ?? ABSOLUTE_TRUE;
  return { op: 'search', base, scope: 'base', deref, ...limits, filter, attributes };
}

/** Returns the context of a search on behalf of another operation, without most controls of that. */
function readingContext(context: Context): Context {
  const { id, services, session, transport, outstanding, client, controls } = context;
  return {
    ...{ id, services, session, transport, outstanding, client },
    controls: { ...NO_CONTROLS, manageDsaIT: controls.manageDsaIT },
    searchReport: undefined,
    bindFailure: undefined,
    givenNumbers: undefined,
    get aborted() {
      return context.aborted;
    },
    onAbortWhileWaiting: (stop) => context.onAbortWhileWaiting(stop),
  };
}

/**
 * Searches an entry as the client could. Returns the version of the entry that was found. Throws `assertionFailed` if
 * it does not match, and what the search throws.
 */
async function readEntry(
  context: Context,
  request: SearchRequest,
  onEntry?: (entry: ReplyEntry, selection: Selection) => Promise<void>,
): Promise<bigint> {
  let version: bigint | undefined;
  const reply = {
    entry: (entry: ReplyEntry, selection: Selection) => {
      version = versionOf(entry.row);
      return onEntry?.(entry, selection);
    },
    reference: () => undefined,
  };
  const outcome = search(readingContext(context), request, reply);
  if (isPromise(outcome)) await outcome;
  if (version === undefined) throw assertionError();
  return version;
}

/** Returns the SearchResultEntry. Throws `adminLimitExceeded` if it is too long. */
async function encodeEntry({ services }: Context, entry: ReplyEntry, selection: Selection): Promise<Buffer> {
  const writer = new Writer();
  const writeChunked = async (chunks: AsyncIterable<Buffer>): Promise<number> => {
    for await (const chunk of chunks) {
      if (writer.length + chunk.length > MAX_ENTRY)
        throw new LdapError('adminLimitExceeded', 'the entry is too long for a control; ask for fewer attributes');
      writer.raw(chunk);
    }
    return writer.length;
  };
  await services.encoder.encode({ writer, writeChunked }, 0, entry, selection, false);
  return entryOfMessage(writer.take());
}
