import type { Node } from 'yaml';
import { isScalar } from 'yaml';
import type { Field, Fields, MarkedYaml } from './marked-yaml.js';
import type { WhoReader } from './parse-who.js';
import type { LimitRule, Limits, Who } from './rule.js';

/** The largest value of each limit. 0 means no limit, except for `inFlight`, which starts at 1. */
const MAX_VALUES: Readonly<Record<Exclude<keyof Limits, 'timeLimit'>, number>> = {
  sizeLimit: 2_147_483_647,
  lookLimit: 2_147_483_647,
  pageSize: 2_147_483_647,
  inFlight: 1_000_000,
};
const MAX_SECONDS = 86_400;
const KEYS = ['name', 'who', 'sizeLimit', 'timeLimit', 'lookLimit', 'pageSize', 'inFlight'];
const UNIT_SECONDS: Readonly<Record<string, number>> = { '': 1, s: 1, m: 60, h: 3600, d: 86_400 };

/** Parses the limits of a rules file. */
export class LimitsReader {
  readonly #yaml: MarkedYaml;
  readonly #who: WhoReader;

  constructor(yaml: MarkedYaml, who: WhoReader) {
    this.#yaml = yaml;
    this.#who = who;
  }

  read(node: Node, name: string): LimitRule {
    const fields = this.#yaml.fields(node, 'a limit', KEYS);
    const line = this.#yaml.line(node);
    const field = fields.get('who');
    const who = this.#who.read(field, line);
    const entryKey = entryKeyOf(who);
    if (entryKey) this.#yaml.fault(field!.line, `a limit is for requests, not for entries; take '${entryKey}' away`);
    return { name, line, who, limits: this.#readLimits(fields, line) };
  }

  #readLimits(fields: Fields, line: number): Limits {
    const limits: { -readonly [K in keyof Limits]: Limits[K] } = {};
    for (const key of Object.keys(MAX_VALUES) as (keyof typeof MAX_VALUES)[]) {
      const field = fields.get(key);
      if (field) limits[key] = this.#yaml.wholeNumber(field, key === 'inFlight' ? 1 : 0, MAX_VALUES[key]) ?? 0;
    }
    const timeField = fields.get('timeLimit');
    if (timeField) limits.timeLimit = this.#readSeconds(timeField);
    if (Object.keys(limits).length === 0)
      this.#yaml.fault(line, 'it limits nothing; add sizeLimit, timeLimit, lookLimit, pageSize or inFlight');
    return limits;
  }

  #readSeconds({ line, value }: Field): number {
    const timeText = isScalar(value) ? String(value.value) : '';
    const match = /^(\d{1,9}) ?([smhd]?)$/.exec(timeText.trim());
    const seconds = match ? Number(match[1]) * UNIT_SECONDS[match[2]!]! : Number.NaN;
    if (seconds <= MAX_SECONDS) return seconds;
    this.#yaml.fault(
      line,
      `'timeLimit' has to be a number of seconds, or one like "30 s" or "5 m", up to a day; 0: no limit`,
    );
    return 0;
  }
}

function entryKeyOf({ self, attribute, not }: Who): string | undefined {
  if (self) return 'self';
  if (attribute) return 'attribute';
  return not && entryKeyOf(not);
}
