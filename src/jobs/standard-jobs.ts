import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { trimChanges } from '../partition/feed/history.js';
import type { Partition } from '../partition/index.js';
import { LOG_TABLE } from '../store/log.js';
import type { Job } from './job.js';

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;

export interface JobSettings {
  readonly history: { readonly deletedDays: number; readonly changesDays: number };
  readonly replica: { readonly logHours: number };
  readonly tls: { readonly cert: string | undefined };
  readonly jobs: {
    readonly purge: { readonly schedule: string };
    readonly trim: { readonly schedule: string };
    readonly recount: { readonly schedule: string };
    readonly check: { readonly schedule: string; readonly entries: number };
    readonly certificate: { readonly schedule: string; readonly days: number };
    readonly indexes: { readonly schedule: string };
  };
  readonly indexes: { readonly auto: 'off' | 'propose' | 'make'; readonly autoMax: number };
}

/** Returns the jobs of every server. A job that detects a problem fails with a description of it. */
export function standardJobs(partition: Partition, { history, replica, tls, jobs, indexes }: JobSettings): Job[] {
  const standardJobs: Job[] = [
    {
      name: 'purge',
      description: `forgets entries deleted more than ${formatCount(history.deletedDays, 'day')} ago`,
      schedule: jobs.purge.schedule,
      async run(run) {
        const purgedCount = await partition.purge(Date.now() - history.deletedDays * DAY_MS, run);
        return `${formatCount(purgedCount, 'deleted entry', 'deleted entries')} forgotten`;
      },
    },
    {
      name: 'trim',
      description: `removes change records older than ${formatCount(history.changesDays, 'day')}, and the log for replicas after ${replica.logHours} h`,
      schedule: jobs.trim.schedule,
      async run(run) {
        // Restoring a deleted entry reads change records to learn how names have changed.
        const days = Math.max(history.changesDays, history.deletedDays);
        const trimmedCount = await partition.trimChanges(Date.now() - days * DAY_MS, run);
        const logFrom = Date.now() - replica.logHours * HOUR_MS;
        const entryCount = await trimChanges(partition.store, logFrom, run, LOG_TABLE.name);
        const more = entryCount > 0 ? `, ${formatCount(entryCount, 'entry', 'entries')} of the log for replicas` : '';
        return `${formatCount(trimmedCount, 'change record')}${more} removed`;
      },
    },
    {
      name: 'recount',
      description: 'sets counters of entries that are wrong',
      schedule: jobs.recount.schedule,
      async run(run) {
        return `counters of ${formatCount(await partition.recount(run), 'entry', 'entries')} set`;
      },
    },
    {
      name: 'check',
      description: `checks ${formatCount(jobs.check.entries, 'entry', 'entries')} drawn at random`,
      schedule: jobs.check.schedule,
      async run(run) {
        const { entryCount, breaches } = await partition.sampleCheck(jobs.check.entries, run);
        const [firstBreach] = breaches;
        const summary = `${formatCount(entryCount, 'entry', 'entries')} checked`;
        if (!firstBreach) return `${summary}, no breach found`;
        const text = `${firstBreach.invariant} ${firstBreach.where}: ${firstBreach.message}`;
        throw new Error(
          `${summary}, ${formatCount(breaches.length, 'breach', 'breaches')}: ${text}; run "rowan check"`,
        );
      },
    },
    {
      name: 'certificate',
      description: `warns ${formatCount(jobs.certificate.days, 'day')} before the certificate expires`,
      schedule: jobs.certificate.schedule,
      run: () => checkCertificates(tls.cert, jobs.certificate.days),
    },
  ];
  if (indexes.auto !== 'make') return standardJobs;
  const indexJob: Job = {
    name: 'indexes',
    description: `makes an index that searches lack, ${indexes.autoMax} at most, and drops those of its own without use`,
    schedule: jobs.indexes.schedule,
    async run(run) {
      const { made, dropped } = await partition.tendIndexes(indexes.autoMax, Date.now(), run);
      return `${made ?? 'no index'} made, ${dropped.length > 0 ? dropped.join(', ') : 'none'} dropped`;
    },
  };
  return [...standardJobs, indexJob];
}

const PEM = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** Checks the certificates in a PEM file. Throws when one is not valid now, or expires within `days`. */
export async function checkCertificates(path: string | undefined, days: number): Promise<string> {
  if (path === undefined) return 'there is no certificate (tls.cert)';
  const certificates = [...(await readFile(path, 'latin1')).matchAll(PEM)].map(([pem]) => parseCertificate(path, pem));
  if (certificates.length === 0) throw new Error(`${path} has no certificate in PEM form`);
  const validFromMs = Math.max(...certificates.map(({ validFrom }) => Date.parse(validFrom)));
  const validToMs = Math.min(...certificates.map(({ validTo }) => Date.parse(validTo)));
  const remedy = 'replace it and send SIGHUP';
  if (validFromMs > Date.now())
    throw new Error(`the certificate in ${path} is not valid before ${new Date(validFromMs).toISOString()}; ${remedy}`);
  const daysLeft = Math.floor((validToMs - Date.now()) / DAY_MS);
  const expiryDate = new Date(validToMs).toISOString();
  if (daysLeft < 0) throw new Error(`the certificate in ${path} has expired on ${expiryDate}; ${remedy}`);
  const expiryText = `the certificate in ${path} expires in ${formatCount(daysLeft, 'day')}, on ${expiryDate}`;
  if (daysLeft < days) throw new Error(`${expiryText}; ${remedy}`);
  return expiryText;
}

function parseCertificate(path: string, pem: string): X509Certificate {
  try {
    return new X509Certificate(pem);
  } catch (error) {
    throw new Error(`${path} has a certificate that cannot be read`, { cause: error });
  }
}

function formatCount(count: number, singular: string, plural = `${singular}s`): string {
  return `${count.toLocaleString('en')} ${count === 1 ? singular : plural}`;
}
