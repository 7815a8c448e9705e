import type { Scope } from '../../ldap/ldap-types.js';
import type { Partition } from '../../partition/index.js';
import type { Dn } from '../../schema/schema-types.js';
import type { Siblings } from '../processes/siblings.js';
import type { Statistics } from '../processes/statistics.js';
import type { Config } from '../settings/index.js';
import { chain, type Maybe } from '../words/maybe.js';
import { indexProposalsAttributes } from './index-proposals.js';
import { jobsAttributes } from './jobs.js';
import { monitorAttributes } from './monitor.js';
import { rootDseAttributes } from './root-dse.js';
import { subschemaAttributes } from './subschema.js';
import type { VirtualAttributes } from './virtual-attributes.js';

/** Largest number of RDNs in the DN of a virtual entry. */
const MAX_RDNS = 2;

export interface VirtualEntry {
  readonly name: string;
  /** The DN in UTF-8. */
  readonly dn: Buffer;
  readonly normDn: Buffer;
  /** The clients that may read the entry: all clients, or clients with the right by the access rules. */
  readonly readers: 'anybody' | 'entitled';
  /** Returns the packed master row with current values. */
  row(): Maybe<Buffer>;
}

/** The entries that are computed, not stored: root DSE and cn=Subschema (RFC 4512 §5.1, §4.2), cn=Monitor. */
export class VirtualEntries {
  readonly #partition: Partition;
  readonly #rootDse: VirtualEntry;
  readonly #entriesByDn = new Map<string, VirtualEntry>();

  constructor(partition: Partition, config: Config, statistics: Statistics, siblings: Siblings | undefined) {
    this.#partition = partition;
    const { schema } = partition;
    const subschema = this.#pack(subschemaAttributes(schema, new Date(statistics.startedAt)));
    this.#rootDse = {
      name: 'the root DSE',
      dn: Buffer.alloc(0),
      normDn: Buffer.alloc(0),
      readers: 'anybody',
      row: () => this.#pack(rootDseAttributes(partition.settings, config)),
    };
    this.#add('cn=Subschema', { readers: 'anybody', row: () => subschema });
    this.#add('cn=Monitor', {
      readers: 'entitled',
      row: () => chain(monitorAttributes(statistics, siblings), (attributes) => this.#pack(attributes)),
    });
    this.#add('cn=Jobs,cn=Monitor', {
      readers: 'entitled',
      row: () => chain(jobsAttributes(partition, config), (attributes) => this.#pack(attributes)),
    });
    this.#add('cn=Index Proposals,cn=Monitor', {
      readers: 'entitled',
      row: () => chain(indexProposalsAttributes(partition), (attributes) => this.#pack(attributes)),
    });
  }

  #add(name: string, entry: Pick<VirtualEntry, 'readers' | 'row'>): void {
    const { norm: normDn } = this.#partition.schema.parseDn(name);
    this.#entriesByDn.set(normDn.toString('latin1'), { ...entry, name, dn: Buffer.from(name), normDn });
  }

  #pack(attributes: VirtualAttributes): Buffer {
    const knownAttributes = attributes.filter(
      ([type, values]) => values.length > 0 && this.#partition.schema.describe(type),
    );
    return this.#partition.virtualRow(
      knownAttributes.map(([type, values]) => ({ type, values: values.map((v) => Buffer.from(v)) })),
    );
  }

  /** Returns the virtual entry at the base of a search. The root DSE is found only by a base search. */
  find(base: Dn, scope: Scope): VirtualEntry | undefined {
    if (base.rdns.length === 0) return scope === 'base' ? this.#rootDse : undefined;
    return base.rdns.length <= MAX_RDNS ? this.#entriesByDn.get(base.norm.toString('latin1')) : undefined;
  }
}
