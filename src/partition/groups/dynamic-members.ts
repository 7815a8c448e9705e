import { TimeSlice } from '../../fair/time-slice.js';
import { LdapError } from '../../ldap/ldap-error.js';
import { isPromise } from '../../store/maybe.js';
import { nextCell, packSorted, valueStart } from '../../store/row.js';
import { INDEX_BYTES } from '../model/descriptions.js';
import { attributeValues, valueQualifier } from '../model/entry-cells.js';
import { groupTypes } from '../model/group-rows.js';
import { MASTER } from '../model/tables.js';
import type { Viewer } from '../model/viewer.js';
import { IdSet } from '../read/plan/id-set.js';
import { search } from '../read/run/search.js';
import type { SearchContext } from '../read/run/search-context.js';
import { EVERYTHING, type Until } from '../read/search-params.js';
import type { MembersRow } from '../read/sink.js';
import { type MemberUrl, UrlTest, urlsIn } from './dynamic-groups.js';
import { entryNamed } from './names.js';

const NOTHING = { takes: () => false };

/** True if a URL of the dynamic group in `row` matches the entry with this name (`Dn.norm`). */
export async function isDynamicMember(
  context: SearchContext,
  row: Buffer,
  name: Buffer,
  viewer: Viewer,
): Promise<boolean> {
  const member = isDynamic(context, row) ? await entryNamed(context, name) : undefined;
  if (!member) return false;
  const urlTest = new UrlTest(context, member, viewer);
  for (const url of urlsIn(context, row)) if (await urlTest.isSelectedBy(url)) return true;
  return false;
}

/**
 * Returns the row of a dynamic group extended by the members that its URLs select, as far as the viewer could find them
 * by the filters. The selected members follow the stored members. `most` limits the total number.
 */
export async function withMembers(
  context: SearchContext,
  row: Buffer,
  viewer: Viewer,
  until: Until,
  most: number,
): Promise<MembersRow> {
  const stored = storedMembers(context, row);
  const room = most - stored.norms.size;
  if (room < 0 || !isDynamic(context, row)) return { row, hasMore: false };
  const found = new MemberCollector(context, stored.norms, room);
  for (const url of urlsIn(context, row)) await found.add(url, viewer, until);
  const cells = found.dns.slice(0, room).map((value, n) => {
    return { family: MASTER.upAttributes, qualifier: valueQualifier(stored.text, stored.next + n), value };
  });
  const more = found.dns.length > room;
  return {
    row: Buffer.concat([row.subarray(0, stored.end), packSorted(cells), row.subarray(stored.end)]),
    hasMore: more,
  };
}

function isDynamic(context: SearchContext, row: Buffer): boolean {
  const { dynamicClass: dynamic } = groupTypes(context.schema);
  const { type } = context.schema.requireDescription('objectClass');
  return attributeValues(context, row, type.name).some(
    (name) => dynamic && type.equality!.normalize(name)?.equals(dynamic),
  );
}

interface StoredMembers {
  /** The attribute description in the row, or the default one. */
  readonly text: string;
  /** `Dn.norm` as Latin-1. */
  readonly norms: ReadonlySet<string>;
  /** Index of the next value, and the offset for its cell. */
  readonly next: number;
  readonly end: number;
}

function storedMembers({ schema, descriptions }: SearchContext, row: Buffer): StoredMembers {
  const member = schema.requireDescription('member');
  const norms = new Set<string>();
  let text: string | undefined;
  let next = 0;
  let end = 0;
  for (let at = 0; at < row.length && row[at]! <= MASTER.upAttributes; ) {
    const after = nextCell(row, at);
    const stored = row[at] === MASTER.upAttributes ? descriptions.ofCell(row, at) : undefined;
    if (stored?.description === member) {
      const start = valueStart(row, at);
      text = stored.text;
      next = row.readUInt32BE(start - INDEX_BYTES) + 1;
      norms.add(member.type.equality!.normalize(row.subarray(start, after))!.toString('latin1'));
    }
    if (text === undefined || stored?.description === member) end = after;
    at = after;
  }
  return { text: text ?? member.text, norms, next, end };
}

/** Collects the entries that URLs select, without duplicates, and one more than fits in `room`. */
class MemberCollector {
  readonly dns: Buffer[] = [];
  readonly #context: SearchContext;
  readonly #stored: ReadonlySet<string>;
  readonly #room: number;
  readonly #ids = new IdSet();
  readonly #slice = new TimeSlice();

  constructor(context: SearchContext, stored: ReadonlySet<string>, room: number) {
    this.#context = context;
    this.#stored = stored;
    this.#room = room;
  }

  /** Adds the entries that a URL selects. A missing base selects none. */
  async add(url: MemberUrl, viewer: Viewer, until: Until): Promise<void> {
    const pause = this.#slice.yieldIfOver();
    if (isPromise(pause)) await pause;
    try {
      await this.#search(url, viewer, until);
    } catch (error) {
      if (!(error instanceof LdapError) || error.result !== 'noSuchObject') throw error;
    }
  }

  async #search({ base, scope, parsed }: MemberUrl, viewer: Viewer, { deadline, signal }: Until): Promise<void> {
    const params = {
      ...EVERYTHING,
      ofUrl: true,
      viewer,
      deadline,
      signal,
      base,
      scope,
      filter: parsed,
      selects: NOTHING,
    };
    for (let resume: Buffer | undefined; this.dns.length <= this.#room; ) {
      const pageSize = Math.min(this.#room - this.dns.length + 1, 0x7fffffff);
      const outcome = await search(
        this.#context,
        { ...params, pageSize, resume },
        { entry: ({ id, dn }) => this.#take(id, dn), reference: () => undefined },
      );
      resume = outcome.resume;
      if (!resume) return;
    }
  }

  #take(id: Buffer, dn: Buffer): void {
    if (!this.#ids.add(id, 0)) return;
    const isStored = this.#stored.size > 0 && this.#stored.has(this.#normOf(dn));
    if (!isStored) this.dns.push(Buffer.from(dn));
  }

  #normOf(dn: Buffer): string {
    return this.#context.schema.parseDnBytes(dn).norm.toString('latin1');
  }
}
