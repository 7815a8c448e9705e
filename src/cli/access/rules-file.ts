import { isUtf8 } from 'node:buffer';
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { checkRules } from '../../access/check-rules.js';
import { parseRules, type RuleFault } from '../../access/parse-rules.js';
import { DEFAULT_PRESET, type Preset, presetText } from '../../access/presets.js';
import type { AccessRules } from '../../access/rule.js';
import type { Entry } from '../../partition/model/directory-types.js';
import type { Schema } from '../../schema/index.js';
import { policyOfEntry } from '../../server/passwords/account-policy.js';
import { CliError, pluralize } from '../exit.js';
import type { OpenDirectory } from '../open-directory.js';

export interface RulesText {
  /** Prefix of line numbers in messages. */
  readonly origin: string;
  readonly text: string;
}

export interface StoredRules extends RulesText {
  /** 0 if no rules were ever stored. The default preset applies then. */
  readonly version: number;
}

export function readTextFile(file: string): RulesText {
  const bytes = readFileSync(file);
  if (!isUtf8(bytes)) throw new CliError(`${file} is not UTF-8`);
  return { origin: basename(file), text: bytes.toString() };
}

export async function currentRules({ partition, schema }: OpenDirectory): Promise<StoredRules> {
  const version = partition.accessVersion;
  return version > 0 ? rulesOfVersion(partition, version) : { version, ...rulesOfPreset(DEFAULT_PRESET, schema) };
}

export function rulesOfPreset(preset: Preset, schema: Schema): RulesText {
  return { origin: `preset ${preset}`, text: presetText(preset, schema) };
}

export async function rulesOfVersion(partition: OpenDirectory['partition'], version: number): Promise<StoredRules> {
  const storedRules = await partition.accessRules(version);
  if (!storedRules)
    throw new CliError(`there are no access rules of version ${version}; "rowan access history" lists them`);
  return { version, origin: `version ${version}`, text: storedRules.text };
}

export function parseRulesText({ origin, text }: RulesText, { schema }: Pick<OpenDirectory, 'schema'>): AccessRules {
  const { rules, faults } = parseRules(text, schema);
  if (!rules) throw new CliError(formatFaults(origin, faults).join('\n'));
  return rules;
}

function isPasswordPolicy(entry: Entry): boolean {
  return policyOfEntry(entry) !== undefined;
}

/** Parses rules and checks them against the directory. Prints warnings; throws a `CliError` with all faults. */
export async function checkRulesText(rulesText: RulesText, directory: OpenDirectory): Promise<AccessRules> {
  const rules = parseRulesText(rulesText, directory);
  const { faults, warnings } = await checkRules(rules, directory.partition, isPasswordPolicy);
  for (const line of formatFaults(rulesText.origin, warnings)) process.stderr.write(`rowan: warning: ${line}\n`);
  if (faults.length > 0) throw new CliError(formatFaults(rulesText.origin, faults).join('\n'));
  return rules;
}

export function formatFaults(origin: string, faults: readonly RuleFault[]): string[] {
  return faults.map(({ line, message }) => `${origin}:${line}: ${message}`);
}

/** `12 rules, 1 limit, 2 password policies`. */
export function describeSize({ rules, limits, passwordPolicies }: AccessRules): string {
  const sizes = [pluralize(rules.length, 'rule')];
  if (limits.length > 0) sizes.push(pluralize(limits.length, 'limit'));
  if (passwordPolicies.length > 0)
    sizes.push(pluralize(passwordPolicies.length, 'password policy', 'password policies'));
  return sizes.join(', ');
}
