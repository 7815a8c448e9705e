import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { Partition } from '../partition/index.js';
import type { Job } from './job.js';

const DAY_MS = 86_400_000;

/** The settings that the jobs follow, as the server's settings have them. */
export interface JobSettings {
  readonly history: { readonly deletedDays: number; readonly changesDays: number };
  readonly tls: { readonly cert: string | undefined };
  readonly jobs: {
    readonly purge: { readonly schedule: string };
    readonly trim: { readonly schedule: string };
    readonly recount: { readonly schedule: string };
    readonly check: { readonly schedule: string; readonly entries: number };
    readonly certificate: { readonly schedule: string; readonly days: number };
  };
}

/** The jobs that every server has. A job that finds something wrong fails with what it is. */
export function standardJobs(partition: Partition, { history, tls, jobs }: JobSettings): Job[] {
  return [
    {
      name: 'purge',
      about: `forgets entries deleted more than ${counted(history.deletedDays, 'day')} ago`,
      schedule: jobs.purge.schedule,
      async run(run) {
        const purged = await partition.purge(Date.now() - history.deletedDays * DAY_MS, run);
        return `${counted(purged, 'deleted entry', 'deleted entries')} forgotten`;
      },
    },
    {
      name: 'trim',
      about: `removes change records older than ${counted(history.changesDays, 'day')}`,
      schedule: jobs.trim.schedule,
      async run(run) {
        // A deleted entry that comes back learns from them how names have changed.
        const days = Math.max(history.changesDays, history.deletedDays);
        const trimmed = await partition.trimChanges(Date.now() - days * DAY_MS, run);
        return `${counted(trimmed, 'change record')} removed`;
      },
    },
    {
      name: 'recount',
      about: 'sets counters of entries that are wrong',
      schedule: jobs.recount.schedule,
      async run(run) {
        return `counters of ${counted(await partition.recount(run), 'entry', 'entries')} set`;
      },
    },
    {
      name: 'check',
      about: `checks ${counted(jobs.check.entries, 'entry', 'entries')} drawn at random`,
      schedule: jobs.check.schedule,
      async run(run) {
        const { entries, breaches } = await partition.sampleCheck(jobs.check.entries, run);
        const [first] = breaches;
        const looked = `${counted(entries, 'entry', 'entries')} checked`;
        if (!first) return `${looked}, no breach found`;
        const what = `${first.invariant} ${first.where}: ${first.message}`;
        throw new Error(`${looked}, ${counted(breaches.length, 'breach', 'breaches')}: ${what}; run "rowan check"`);
      },
    },
    {
      name: 'certificate',
      about: `warns ${counted(jobs.certificate.days, 'day')} before the certificate expires`,
      schedule: jobs.certificate.schedule,
      run: () => certificateState(tls.cert, jobs.certificate.days),
    },
  ];
}

const PEM = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** Of the certificates in a PEM file. Throws where one is not valid now, or ends within `days`. */
async function certificateState(path: string | undefined, days: number): Promise<string> {
  if (path === undefined) return 'there is no certificate (tls.cert)';
  const certificates = [...(await readFile(path, 'latin1')).matchAll(PEM)].map(([pem]) => parsed(path, pem));
  if (certificates.length === 0) throw new Error(`${path} has no certificate in PEM form`);
  const begin = Math.max(...certificates.map(({ validFrom }) => Date.parse(validFrom)));
  const end = Math.min(...certificates.map(({ validTo }) => Date.parse(validTo)));
  const remedy = 'replace it and send SIGHUP';
  if (begin > Date.now())
    throw new Error(`the certificate in ${path} is not valid before ${new Date(begin).toISOString()}; ${remedy}`);
  const left = Math.floor((end - Date.now()) / DAY_MS);
  const date = new Date(end).toISOString();
  if (left < 0) throw new Error(`the certificate in ${path} has expired on ${date}; ${remedy}`);
  const expires = `the certificate in ${path} expires in ${counted(left, 'day')}, on ${date}`;
  if (left < days) throw new Error(`${expires}; ${remedy}`);
  return expires;
}

function parsed(path: string, pem: string): X509Certificate {
  try {
    return new X509Certificate(pem);
  } catch (error) {
    throw new Error(`${path} has a certificate that cannot be read`, { cause: error });
  }
}

function counted(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString('en')} ${count === 1 ? one : many}`;
}
