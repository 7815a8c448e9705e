import { readFileSync } from 'node:fs';
import { expect } from 'chai';
import parsePrometheusTextFormat from 'parse-prometheus-text-format';
import type { RunningServer } from './rowan.js';

export interface Series {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export type Family = ReturnType<typeof parsePrometheusTextFormat>[number];

/** The URL of the HTTP listener of a server. */
export function httpUrl(server: RunningServer): string {
  return /http:\S+/.exec(server.ready)![0];
}

/** The metrics of a server, as the parser of the package reads them. */
export async function scrape(server: RunningServer): Promise<{ families: Family[]; series: Series[] }> {
  const response = await fetch(`${httpUrl(server)}/metrics`);
  expect(response.status).to.equal(200);
  expect(response.headers.get('content-type')).to.equal('text/plain; version=0.0.4; charset=utf-8');
  const text = await response.text();
  // The parser forgets the labels of histograms: their parts are read as metrics of their own.
  const parts = parsePrometheusTextFormat(text.replaceAll(/^# (?:HELP|TYPE) .*\n/gm, ''));
  const series = parts.flatMap(({ name, metrics }) =>
    metrics.map(({ labels = {}, value }) => ({ name, labels, value: Number(value) })),
  );
  return { families: parsePrometheusTextFormat(text), series };
}

/** The series of a server that must not fall: those of counters and histograms. */
export async function counters(server: RunningServer): Promise<Series[]> {
  const { series } = await scrape(server);
  return series.filter(({ name }) => /_(?:total|bucket|sum|count)$/.test(name));
}

export function total(series: readonly Series[], name: string, labels: Readonly<Record<string, string>> = {}): number {
  return series
    .filter((one) => one.name === name && Object.entries(labels).every(([label, value]) => one.labels[label] === value))
    .reduce((sum, { value }) => sum + value, 0);
}

/** The series that have fallen or are gone. */
export function fallen(before: readonly Series[], after: readonly Series[]): string[] {
  const key = ({ name, labels }: Series): string => `${name} ${JSON.stringify(labels)}`;
  const now = new Map(after.map((one) => [key(one), one.value]));
  return before.filter((one) => (now.get(key(one)) ?? -1) < one.value).map(key);
}

/** Process ids of the children of a process. */
export function childrenOf(pid: number): number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').map(Number);
}
