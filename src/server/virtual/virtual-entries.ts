import { isAtOrBelow } from '../../access/requester.js';
import {
  formatTime,
  type JobRow,
  lastRunText,
  nextRunText,
  readJob,
  readJobs,
  standardJobs,
} from '../../jobs/index.js';
import type { Filter, Scope } from '../../ldap/ldap-types.js';
import { chain, type Maybe, type Partition } from '../../partition/index.js';
import { generalizedTime } from '../../partition/model/csn.js';
import type { DirectorySettings } from '../../partition/model/directory-types.js';
import type { Node } from '../../partition/model/tables.js';
import { ExtendedOid, FeatureOid } from '../../protocol/oids.js';
import type { Primary } from '../../replica/primary.js';
import { describeReplication, ownReplication } from '../../replica/report.js';
import type { Schema } from '../../schema/schema.js';
import type { Dn } from '../../schema/schema-types.js';
import { SUBSCHEMA_DN } from '../entry/computed.js';
import type { Siblings } from '../processes/siblings.js';
import type { Statistics } from '../processes/statistics.js';
import type { Config } from '../settings/index.js';
import { SUPPORTED_CONTROLS } from '../words/controls.js';
import { VENDOR, VERSION } from '../words/version.js';
import { CHANGELOG_DN, changelogEntries, changelogEntry } from './changelog.js';
import { proposalLines } from './index-proposals.js';
import { type ComputedEntry, MONITOR_DN, monitorEntries, textEntry, type VirtualAttributes } from './monitor.js';

const NO_ENTRY_ID = Buffer.alloc(16);

export interface VirtualEntry {
  readonly dn: Dn;
  readonly node: Node;
  /** Returns the packed master row with current values. */
  row(): Maybe<Buffer>;
}

/** A computed entry and the computed entries below. */
export interface VirtualTree {
  readonly top: Dn;
  /**
   * The clients that may read the entries: all clients, clients with the right by the access rules, or clients who may
   * read all attributes of all entries but secrets.
   */
  readonly readers: 'anybody' | 'entitled' | 'all-seeing';
  /** Returns the entries at present, superiors first. Of entries that `below` returns, only the one named `base`. */
  entries(base: Dn): Maybe<readonly VirtualEntry[]>;
  /** Returns those of many entries below the top that the filter may match. */
  below?(filter: Filter): AsyncIterable<VirtualEntry>;
}

/** The entries that are computed, not stored: root DSE and cn=Subschema (RFC 4512 §5.1, §4.2), cn=Monitor. */
export class VirtualEntries {
  readonly #partition: Partition;
  readonly #rootDse: VirtualTree;
  readonly #trees: readonly VirtualTree[];
  /** By DN of the computed entries, which are few. Access rules cache their decisions by node. */
  readonly #nodes = new Map<string, { readonly dn: Dn; readonly node: Node }>();

  constructor(
    partition: Partition,
    config: Config,
    statistics: Statistics,
    siblings: Siblings | undefined,
    primary: Primary,
  ) {
    this.#partition = partition;
    const { schema } = partition;
    const subschema = this.#pack(subschemaAttributes(schema, statistics.startedAt));
    const subschemaEntry = { ...this.#place('cn=Subschema'), row: () => subschema };
    const rootDseEntry = { ...this.#place(''), row: () => this.#pack(rootDseAttributes(partition.settings, config)) };
    this.#rootDse = { top: rootDseEntry.dn, readers: 'anybody', entries: () => [rootDseEntry] };
    const textEntries = [
      textEntry('Jobs', () => jobLines(partition, config)),
      textEntry('Index Proposals', () => proposalLines(partition)),
      textEntry('Replication', async () => {
        const answers = (await siblings?.ask({ about: 'replicas' })) ?? [];
        return describeReplication(partition.store, [ownReplication(primary), ...answers]);
      }),
    ];
    this.#trees = [
      { top: subschemaEntry.dn, readers: 'anybody', entries: () => [subschemaEntry] },
      {
        top: schema.parseDn(MONITOR_DN),
        readers: 'entitled',
        entries: () =>
          chain(monitorEntries(statistics, siblings, config), (entries) =>
            [...entries, ...textEntries].map((entry) => this.#virtualEntry(entry)),
          ),
      },
      {
        top: schema.parseDn(CHANGELOG_DN),
        readers: 'all-seeing',
        entries: (base) => this.#changelog(base),
        below: (filter) => this.#changes(filter),
      },
    ];
  }

  async #changelog(base: Dn): Promise<readonly VirtualEntry[]> {
    const entries = [this.#virtualEntry(changelogEntry(this.#partition))];
    const [ava, ...others] = base.rdns[0]!.avas;
    if (base.rdns.length !== 2 || ava!.type?.name !== 'changeNumber' || others.length > 0) return entries;
    const named = { type: 'equal', attribute: 'changeNumber', value: ava!.value } as const;
    for await (const entry of this.#changes(named)) entries.push(entry);
    return entries;
  }

  async *#changes(filter: Filter): AsyncGenerator<VirtualEntry> {
    for await (const { dn, attributes } of changelogEntries(this.#partition, filter))
      yield { ...this.#newPlace(dn), row: () => chain(attributes(), (computed) => this.#pack(computed)) };
  }

  #virtualEntry({ dn, attributes }: ComputedEntry): VirtualEntry {
    return { ...this.#place(dn), row: () => chain(attributes(), (computed) => this.#pack(computed)) };
  }

  #place(text: string): { readonly dn: Dn; readonly node: Node } {
    const place = this.#nodes.get(text) ?? this.#newPlace(text);
    this.#nodes.set(text, place);
    return place;
  }

  #newPlace(text: string): { readonly dn: Dn; readonly node: Node } {
    const dn = this.#partition.schema.parseDn(text);
    const parentText = dn.rdns.slice(1).map((rdn) => rdn.text);
    const parent = parentText.length === 0 ? undefined : this.#place(parentText.join(',')).node;
    return { dn, node: { id: NO_ENTRY_ID, parent, normRdn: dn.rdns[0]?.norm ?? dn.norm, dn: Buffer.from(text) } };
  }

  #pack(attributes: VirtualAttributes): Buffer {
    const knownAttributes = attributes.filter(
      ([type, values]) => values.length > 0 && this.#partition.schema.describe(type),
    );
    return this.#partition.virtualRow(
      knownAttributes.map(([type, values]) => ({ type, values: values.map((v) => Buffer.from(v)) })),
    );
  }

  /** Returns the tree with the base of a search. The root DSE is found only by a base search. */
  find(base: Dn, scope: Scope): VirtualTree | undefined {
    if (base.rdns.length === 0) return scope === 'base' ? this.#rootDse : undefined;
    return this.#trees.find(({ top }) => isAtOrBelow(base, top));
  }
}

/** The root DSE (RFC 4512 §5.1, RFC 3045). */
function rootDseAttributes(settings: DirectorySettings, config: Config): VirtualAttributes {
  return [
    ['objectClass', ['top']],
    ['namingContexts', settings.suffixes],
    ['supportedLDAPVersion', ['3']],
    ['supportedControl', SUPPORTED_CONTROLS],
    ['supportedExtension', supportedExtensions(config)],
    ['supportedFeatures', Object.values(FeatureOid)],
    ['subschemaSubentry', [SUBSCHEMA_DN]],
    ['monitorContext', ['cn=Monitor']],
    ['changeLog', [CHANGELOG_DN]],
    ['vendorName', [VENDOR]],
    ['vendorVersion', [VERSION]],
    ['entryDN', ['']],
    ['structuralObjectClass', ['top']],
    ['hasSubordinates', ['TRUE']],
  ];
}

/** StartTLS is supported only with a certificate. */
function supportedExtensions(config: Config): string[] {
  return Object.values(ExtendedOid).filter((oid) => oid !== ExtendedOid.startTls || config.tls.cert !== undefined);
}

/** Returns last and next run of each scheduled job, for cn=Jobs,cn=Monitor. */
async function jobLines(partition: Partition, config: Config): Promise<string[]> {
  const lines: string[] = [];
  const jobs = standardJobs(partition, config);
  for (const job of jobs) {
    const row = await readJob(partition.store, job.name);
    lines.push(`${job.name}.schedule: ${job.schedule}`, ...runTimes(row, nextRunText(job, row)));
  }
  for (const row of await readJobs(partition.store))
    if (!jobs.some(({ name }) => name === row.name)) lines.push(...runTimes(row, formatTime(row.state.next)));
  return lines;
}

function runTimes(row: JobRow, next: string): string[] {
  return [`${row.name}.last: ${lastRunText(row)}`, `${row.name}.next: ${next}`];
}

/** The subschema subentry (RFC 4512 §4.2): the whole schema in RFC 4512 §4.1 text. */
function subschemaAttributes(schema: Schema, loadedAt: number): VirtualAttributes {
  const time = generalizedTime(loadedAt);
  return [
    ['objectClass', ['top', 'subentry', 'subschema', 'extensibleObject']],
    ['cn', ['Subschema']],
    ['subtreeSpecification', ['{}']],
    ...schema.subschema().map(({ type, values }) => [type, values] as const),
    ['createTimestamp', [time]],
    ['modifyTimestamp', [time]],
    ['entryDN', [SUBSCHEMA_DN]],
    ['subschemaSubentry', [SUBSCHEMA_DN]],
    ['structuralObjectClass', ['subentry']],
    ['hasSubordinates', ['FALSE']],
    ['numSubordinates', ['0']],
  ];
}
