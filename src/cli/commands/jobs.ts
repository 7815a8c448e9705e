import type { Command } from 'commander';
import { disabledStep, type Job, type JobRow, lastRunText, nextRunText, readJob, runNow } from '../../jobs/index.js';
import type { Partition } from '../../partition/index.js';
import { CommandAuditLog } from '../audit-record.js';
import { CliError, UsageError } from '../exit.js';
import { createLog } from '../log.js';
import { listJobs } from '../maintenance.js';
import { withDirectory } from '../open-directory.js';
import { commandGroup, directoryCommand, resolveSettings, type Settings } from '../options.js';

const EXAMPLES = `
Examples:
  When each job ran, how it ended, and when it runs next:
    rowan jobs list --data data

  Run one now, beside a server or without one:
    rowan jobs run purge --data data

  No server starts this one by itself any more, until it is enabled again:
    rowan jobs disable recount --data data
    rowan jobs enable recount --data data

When a job starts, and what it does, is set in the configuration of the servers (jobs: in docs/configuration.md).
`;

function findJob(jobs: readonly Job[], name: string): Job {
  const job = jobs.find((one) => one.name === name);
  if (job) return job;
  const setting = { backup: 'backup.folder', dropfolder: 'dropfolder.folder', indexes: 'indexes.auto: make' }[name];
  const remedy = setting ? `; ${setting} in the configuration makes it (--config)` : '';
  throw new UsageError(`there is no job '${name}'; the jobs are ${jobs.map((one) => one.name).join(', ')}${remedy}`);
}

async function list(settings: Settings): Promise<void> {
  await withDirectory(settings, { readOnly: true }, async ({ partition }) => {
    for (const job of listJobs(partition, settings.config, createLog(settings.config), settings.file)) {
      const row = await readJob(partition.store, job.name);
      const lines = [
        `schedule  ${job.schedule}`,
        `last      ${lastRunText(row)}`,
        `next      ${nextRunText(job, row)}`,
      ];
      process.stdout.write(`${job.name}: ${job.description}\n${lines.map((line) => `  ${line}\n`).join('')}`);
    }
  });
}

async function runJob(partition: Partition, job: Job): Promise<void> {
  const stopController = new AbortController();
  const abort = (): void => stopController.abort();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, abort);
  try {
    const printWaitNotice = ({ state }: JobRow): void =>
      void process.stderr.write(`rowan: ${state.holder} has job '${job.name}'; waiting to see whether it lives\n`);
    process.stdout.write(`${await runNow(partition.store, job, stopController.signal, printWaitNotice)}\n`);
  } catch (error) {
    throw new CliError((error as Error).message, { cause: error });
  } finally {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.off(signal, abort);
  }
}

async function setState(settings: Settings, name: string, isDisabled: boolean): Promise<void> {
  await withDirectory(settings, {}, async ({ partition }) => {
    const job = findJob(listJobs(partition, settings.config, createLog(settings.config)), name);
    await partition.store.commit({ steps: [disabledStep(job.name, isDisabled)], decisive: 0 });
    process.stdout.write(`${job.name}: ${isDisabled ? 'disabled' : 'enabled'}\n`);
  });
}

export function addJobs(program: Command): void {
  const jobs = commandGroup(program, 'jobs', 'show, run, disable and enable the scheduled jobs', EXAMPLES);
  const addCommand = (name: string, description: string) => directoryCommand(jobs, name, description, EXAMPLES);

  addCommand('list', 'show when each job ran, and when it runs next').action((_options: object, command: Command) =>
    list(resolveSettings(command)),
  );
  addCommand('run', 'run a job now')
    .argument('<job>')
    .action((name: string, _options: object, command: Command) => {
      const settings = resolveSettings(command);
      const { config } = settings;
      const audit = new CommandAuditLog(config).append;
      return withDirectory(settings, {}, ({ partition }) =>
        runJob(partition, findJob(listJobs(partition, config, createLog(config), settings.file, audit), name)),
      );
    });
  addCommand('disable', 'keep servers from starting the job by themselves')
    .argument('<job>')
    .action((name: string, _options: object, command: Command) => setState(resolveSettings(command), name, true));
  addCommand('enable', 'let servers start the job by its schedule again')
    .argument('<job>')
    .action((name: string, _options: object, command: Command) => setState(resolveSettings(command), name, false));
}
