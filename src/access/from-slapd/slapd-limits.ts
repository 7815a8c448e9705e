import type { Report } from './report.js';
import { parseWho } from './slapd-syntax.js';
import type { WhoReader } from './slapd-who.js';
import { type LogicalLine, splitWords } from './source.js';
import { type RuleWho, subtractWho, toRuleWho, type WhoSet } from './who-set.js';

/** An element of `limits` in a rules file. */
export interface LimitDraft {
  readonly name: string;
  readonly who: RuleWho;
  readonly [limit: string]: unknown;
}

/** The limits of rules by those of slapd (slapd.conf(5), `limits`). Rules have no soft limits. */
const LIMITS: Readonly<Record<string, string>> = {
  size: 'sizeLimit',
  'size.hard': 'sizeLimit',
  'size.soft': 'sizeLimit',
  'size.unchecked': 'lookLimit',
  'size.pr': 'pageSize',
  time: 'timeLimit',
  'time.hard': 'timeLimit',
  'time.soft': 'timeLimit',
};

/**
 * Translates `limits` lines. In slapd the first line that fits somebody counts, of rules the widest, so each limit
 * leaves out whom earlier lines are about.
 */
export function readLimits(lines: readonly LogicalLine[], whoReader: WhoReader, report: Report): LimitDraft[] {
  const drafts: LimitDraft[] = [];
  const earlierWhos: WhoSet[] = [];
  for (const { line, text } of lines) {
    const [whoText = '', ...specs] = splitWords(text);
    const { who, inexactReason } = whoReader.read([parseWho(whoText)], line);
    if (inexactReason !== undefined || who?.self || who?.attribute)
      report.add('left', line, `limits of '${whoText}': ${inexactReason ?? 'no limit can depend on the entry'}`);
    else if (who) {
      const remainingWho = earlierWhos.reduceRight<WhoSet | undefined>(
        (rest, one) => rest && subtractWho(rest, one),
        who,
      );
      const limits = readSpecs(specs, line, report);
      earlierWhos.push(who);
      if (remainingWho && Object.keys(limits).length > 0)
        drafts.push({ name: `line ${line}, limits ${whoText}`, who: toRuleWho(remainingWho), ...limits });
    }
  }
  return drafts;
}

function readSpecs(specs: readonly string[], line: number, report: Report): Record<string, number> {
  const limits: Record<string, number> = {};
  for (const spec of specs) {
    const [, givenKey = '', value = ''] = /^([a-z.]+)=([1-9]\d*|-1|none|unlimited)$/i.exec(spec) ?? [];
    const key = givenKey.toLowerCase();
    const name = LIMITS[key];
    if (name === undefined) report.add('left', line, `limits: no rule can say '${spec}'`);
    else if (!key.endsWith('.soft') || !(name in limits)) limits[name] = /^\d/.test(value) ? Number(value) : 0;
    if (key.endsWith('.soft'))
      report.add('said', line, `'${spec}': a search that asks for no limit gets the hard one here`);
  }
  return limits;
}
