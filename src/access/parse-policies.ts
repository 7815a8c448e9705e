import type { Node } from 'yaml';
import type { Schema } from '../schema/schema.js';
import type { Dn } from '../schema/schema-types.js';
import type { Field, MarkedYaml } from './marked-yaml.js';
import type { TargetReader } from './parse-target.js';
import { readDns } from './parse-who.js';
import type { PolicyRule } from './rule.js';

const KEYS = ['name', 'policy', 'to', 'group'];
const TO_KEYS = ['subtree', 'filter'];

/** Parses the assignments of password policies to accounts. */
export class PoliciesReader {
  readonly #yaml: MarkedYaml;
  readonly #schema: Schema;
  readonly #target: TargetReader;

  constructor(yaml: MarkedYaml, schema: Schema, target: TargetReader) {
    this.#yaml = yaml;
    this.#schema = schema;
    this.#target = target;
  }

  read(node: Node, name: string): PolicyRule {
    const fields = this.#yaml.fields(node, 'a password policy', KEYS);
    const line = this.#yaml.line(node);
    const to = fields.get('to');
    const group = fields.get('group');
    const { place, filters } = to ? this.#target.read(to.value, TO_KEYS) : {};
    return {
      name,
      line,
      policy: this.#readPolicy(fields.get('policy'), line),
      ...(place && { subtrees: place.bases }),
      ...(filters && { filters }),
      ...(group && { groups: readDns(this.#yaml, this.#schema, group) }),
    };
  }

  #readPolicy(field: Field | undefined, line: number): Dn {
    if (!field) {
      this.#yaml.fault(line, "it names no policy; add 'policy', the DN of an entry of class pwdPolicy");
      return NO_DN;
    }
    const dns = readDns(this.#yaml, this.#schema, field);
    if (dns.length > 1) this.#yaml.fault(field.line, "'policy' has to be one DN");
    return dns[0] ?? NO_DN;
  }
}

/** Placeholder for a policy DN that has a fault. */
const NO_DN: Dn = { rdns: [], text: '', norm: Buffer.alloc(0) };
