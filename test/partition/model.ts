import type { Modification } from '../../src/ldap/ldap-types.js';

/** One entry of the model: attributes by lower-case name, values as lower-case text in any order. */
export interface ModelEntry {
  readonly uuid: string;
  rdn: string;
  parent: ModelEntry | undefined;
  readonly values: Map<string, Set<string>>;
}

/** A plain LDAP tree in memory: what a directory should do, in the fewest words. Names are `type=value`, lower case. */
export class Model {
  readonly live = new Map<string, ModelEntry>();
  readonly deleted = new Map<string, { entry: ModelEntry; parent: string }>();
  readonly root: ModelEntry;

  constructor(uuid: string, suffix: string) {
    this.root = { uuid, rdn: suffix, parent: undefined, values: new Map() };
    this.live.set(uuid, this.root);
  }

  dn(entry: ModelEntry): string {
    return entry.parent ? `${entry.rdn},${this.dn(entry.parent)}` : entry.rdn;
  }

  children(of: ModelEntry): ModelEntry[] {
    return [...this.live.values()].filter((e) => e.parent === of);
  }

  isWithin(entry: ModelEntry, above: ModelEntry): boolean {
    for (let e: ModelEntry | undefined = entry; e; e = e.parent) if (e === above) return true;
    return false;
  }

  private taken(parent: ModelEntry, rdn: string, but?: ModelEntry): boolean {
    return this.children(parent).some((e) => e !== but && e.rdn === rdn);
  }

  add(uuid: string, parent: ModelEntry, rdn: string, values: Map<string, Set<string>>): string {
    if (!this.live.has(parent.uuid)) return 'noSuchObject';
    if (this.taken(parent, rdn)) return 'entryAlreadyExists';
    this.live.set(uuid, { uuid, rdn, parent, values });
    return 'success';
  }

  modify(entry: ModelEntry, { operation, attribute }: Modification): string {
    if (!this.live.has(entry.uuid)) return 'noSuchObject';
    const type = attribute.type.toLowerCase();
    const given = attribute.values.map((v) => v.toString().toLowerCase());
    const before = entry.values.get(type) ?? new Set<string>();
    const after = new Set(operation === 'replace' ? [] : before);
    for (const value of given) {
      if (operation === 'delete' ? !after.delete(value) : after.has(value))
        return operation === 'delete' ? 'noSuchAttribute' : 'attributeOrValueExists';
      if (operation !== 'delete') after.add(value);
    }
    if (operation === 'delete' && given.length === 0) {
      if (before.size === 0) return 'noSuchAttribute';
      after.clear();
    }
    const [named, value] = entry.rdn.split('=') as [string, string];
    if (named === type && !after.has(value)) return 'notAllowedOnRDN';
    entry.values.set(type, after);
    return 'success';
  }

  rename(entry: ModelEntry, rdn: string, deleteOld: boolean, parent: ModelEntry | undefined): string {
    if (!this.live.has(entry.uuid)) return 'noSuchObject';
    if (parent && !this.live.has(parent.uuid)) return 'noSuchObject';
    if (!entry.parent) return 'unwillingToPerform';
    const to = parent ?? entry.parent;
    if (this.isWithin(to, entry)) return 'unwillingToPerform';
    if (this.taken(to, rdn, entry)) return 'entryAlreadyExists';
    const [oldType, oldValue] = entry.rdn.split('=') as [string, string];
    const [type, value] = rdn.split('=') as [string, string];
    if (deleteOld) entry.values.get(oldType)?.delete(oldValue);
    const set = entry.values.get(type) ?? new Set();
    entry.values.set(type, set.add(value));
    entry.rdn = rdn;
    entry.parent = to;
    return 'success';
  }

  remove(entry: ModelEntry): string {
    if (!this.live.has(entry.uuid)) return 'noSuchObject';
    if (this.children(entry).length > 0) return 'notAllowedOnNonLeaf';
    this.live.delete(entry.uuid);
    this.deleted.set(entry.uuid, { entry, parent: entry.parent!.uuid });
    return 'success';
  }

  restore(uuid: string): string {
    const found = this.deleted.get(uuid);
    if (!found) return 'noSuchObject';
    const parent = this.live.get(found.parent);
    if (!parent) return 'noSuchObject';
    if (this.taken(parent, found.entry.rdn)) return 'entryAlreadyExists';
    this.deleted.delete(uuid);
    found.entry.parent = parent;
    this.live.set(uuid, found.entry);
    return 'success';
  }

  search(base: ModelEntry, scope: string, matches: (entry: ModelEntry) => boolean): string[] {
    const inScope = (e: ModelEntry): boolean => {
      if (scope === 'base') return e === base;
      if (scope === 'one') return e.parent === base;
      return this.isWithin(e, base) && (scope === 'sub' || e !== base);
    };
    return [...this.live.values()]
      .filter((e) => inScope(e) && matches(e))
      .map((e) => this.dn(e))
      .sort();
  }
}
