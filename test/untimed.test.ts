import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';

const root = fileURLToPath(new URL('../../test/', import.meta.url));

/** Files that may measure, and why. */
const ALLOWED: Readonly<Record<string, string>> = {
  'partition/indexes.test.ts': 'what is told of a wait comes from a time stamp that is stored',
  'store/hbase/rpc/retry.test.ts': 'pauses are asked of a clock that is given',
  'waits.ts': 'a report says how long a wait has lasted',
  'store/lmdb-read-ahead.test.ts': 'flags of a mapping, not its size',
};

/** What a process or a machine spends. */
const SPENT =
  /\b(?:cpuUsage|memoryUsage|resourceUsage|hrtime|heapUsed|getHeapStatistics|memoryOf|VmHWM|VmRSS|RssAnon)\b/;
const PROC = /\/proc\/[^\s'"`]*\/(?:status|statm?|schedstat|smaps\w*)\b/;
/** The time since or until another. `Date.now()` less a number, or in `generalizedTime`, is a date. */
const DURATION = /(?<!Time\()\b(?:performance|Date)\.now\(\)\s*-\s*[a-z_(]|[\w)]\s*-\s*(?:performance|Date)\.now\(\)/i;

/** `expect(SUBJECT, …).to.be.below(…)` and the like, over lines. */
const COMPARISON =
  /\bexpect\(((?:(?!\bexpect\(|;).)*?)\)\s*\.(?:\w+\s*\.)*?(?:below|above|lessThan|greaterThan|within|most|least|closeTo|approximately|lte?|gte?)\(/gs;
/** Names of durations, rates and memory. */
const MEASURED =
  /\b(?:\w*(?:Ms|MS|Micros|Millis|Seconds)|ms|millis|seconds|elapsed|took|duration|durations|latency|waited|longest|pauses?|rate|rates|cpu|rss|heap|arrayBuffers|memory|peak)\b|\.now\(\)/;

function code(name: string): string {
  // No comments: a line that begins with `//` or `*`.
  return readFileSync(join(root, name), 'utf8').replace(/^\s*(?:\/\/|\/?\*).*$/gm, '');
}

/** What looks measured in a file. */
function hits(name: string): string[] {
  const text = code(name);
  const lines = text.split('\n').filter((line) => SPENT.test(line) || PROC.test(line) || DURATION.test(line));
  const compared = [...text.matchAll(COMPARISON)].filter(([, subject]) => MEASURED.test(subject!));
  return [...lines, ...compared.map(([whole]) => whole)].map((hit) => `${name}: ${hit.trim()}`);
}

describe('tests', () => {
  const names = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'));
  const files = names.filter((name) => name !== 'untimed.test.ts');

  it('compare no time, rate or memory of a process with a number', () => {
    expect(files.length).to.be.greaterThan(200);
    expect(files.filter((name) => !(name in ALLOWED)).flatMap(hits)).to.deep.equal([]);
  });

  it('that are allowed to measure do', () => {
    expect(Object.keys(ALLOWED).filter((name) => !files.includes(name) || hits(name).length === 0)).to.deep.equal([]);
  });
});
