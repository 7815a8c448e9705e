import type { Logger } from 'pino';
import { CompiledAccess } from '../../access/compiled-access.js';
import { parseRules } from '../../access/parse-rules.js';
import { DEFAULT_PRESET, PRESETS } from '../../access/presets.js';
import type { AccessRules } from '../../access/rule.js';
import type { Maybe, Partition } from '../../partition/index.js';

/** The rules while the stored rules cannot be read: only the administrator has rights. */
const NO_ACCESS: AccessRules = { rules: [], limits: [], passwordPolicies: [] };

/** The access rules of the directory. Each version of the rules is compiled once. */
export class AccessControl {
  readonly #partition: Partition;
  readonly #log: Pick<Logger, 'error'>;
  #compiledAccess: CompiledAccess | undefined;
  /** The suffixes that `#compiledAccess` was compiled for. */
  #compiledSuffixes: Partition['suffixes'] = [];
  #runningCompilation: { readonly version: number; readonly result: Promise<CompiledAccess> } | undefined;

  constructor(partition: Partition, log: Pick<Logger, 'error'>) {
    this.#partition = partition;
    this.#log = log;
  }

  /** Returns the rules in force according to the last read of the shared row. */
  rulesInForce(): Maybe<CompiledAccess> {
    const { accessVersion: version, suffixes } = this.#partition;
    if (this.#compiledAccess?.version === version && this.#isCompiledFor(suffixes)) return this.#compiledAccess;
    if (version === 0) return this.#remember(this.#compile(0, PRESETS[DEFAULT_PRESET]));
    if (this.#runningCompilation?.version !== version)
      this.#runningCompilation = { version, result: this.#load(version) };
    return this.#runningCompilation.result;
  }

  /** Whether the compiled rules are for these suffixes, which rarely change with the shared row. */
  #isCompiledFor(suffixes: Partition['suffixes']): boolean {
    const compiledSuffixes = this.#compiledSuffixes;
    if (compiledSuffixes === suffixes) return true;
    if (
      compiledSuffixes.length !== suffixes.length ||
      suffixes.some(({ norm }, i) => !norm.equals(compiledSuffixes[i]!.norm))
    )
      return false;
    this.#compiledSuffixes = suffixes;
    return true;
  }

  async #load(version: number): Promise<CompiledAccess> {
    try {
      const stored = await this.#partition.accessRules(version);
      const compiled = this.#compile(version, stored?.text);
      return this.#partition.accessVersion === version ? this.#remember(compiled) : compiled;
    } finally {
      if (this.#runningCompilation?.version === version) this.#runningCompilation = undefined;
    }
  }

  #remember(compiled: CompiledAccess): CompiledAccess {
    this.#compiledAccess = compiled;
    this.#compiledSuffixes = this.#partition.suffixes;
    return compiled;
  }

  #compile(version: number, text: string | undefined): CompiledAccess {
    const { compiler, reader } = this.#partition.context;
    const environment = { suffixes: this.#partition.suffixes, compiler, reader };
    return new CompiledAccess(version, this.#parseRules(version, text), environment);
  }

  #parseRules(version: number, text: string | undefined): AccessRules {
    const { rules, faults } = parseRules(text ?? '', this.#partition.schema);
    if (rules && text !== undefined) return rules;
    const reason = faults.map(({ line, message }) => `line ${line}: ${message}`).join('; ') || 'they are not there';
    this.#log.error(
      { version, reason },
      'the access rules cannot be read: nobody but the administrator may do anything',
    );
    return NO_ACCESS;
  }
}
