import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { pino } from 'pino';
import { Quality } from '../../server/passwords/quality.js';
import { SecondFactor } from '../../server/passwords/second-factor.js';
import type { Config } from '../../server/settings/index.js';
import { CliError, describeError } from '../exit.js';
import type { Settings } from '../options.js';
import { type Finding, fault, ok } from './finding.js';

const REMEDY = 'correct the setting, or make what it names and let the user of the server use it';

/** Checks the logs, the files for passwords and the drop folder that the settings name. */
export async function checkNamedFiles({ config }: Settings): Promise<Finding[]> {
  const { accessLog, passwords, dropfolder } = config;
  const log = pino({ level: 'silent' });
  const faults = [
    await faultOf('accessLog.output: ', () => requireLogFile(accessLog.output)),
    await faultOf('', () => requireAuditLog(config)),
    await faultOf('', () => new SecondFactor(passwords.totpKey, log)),
    await faultOf('', () => new Quality(config, log).requireUsable()),
    await faultOf('dropfolder.folder: ', () => requireFolder(dropfolder.folder)),
  ];
  const findings = faults.filter((finding) => finding !== undefined);
  return findings.length > 0 ? findings : [ok('the logs, files and folders of the settings can be used')];
}

async function faultOf(prefix: string, work: () => unknown): Promise<Finding | undefined> {
  try {
    await work();
    return undefined;
  } catch (error) {
    return fault(`${prefix}${describeError(error)}`, REMEDY);
  }
}

/** Throws when the audit log cannot be written: a server that is to record its changes does not start without. */
export async function requireAuditLog({ auditLog: { output } }: Config): Promise<void> {
  await requireLogFile(output).catch((cause: Error) => {
    throw new CliError(`auditLog.output: ${output} cannot be written: ${describeError(cause)}`, { cause });
  });
}

/** Throws when the file cannot be appended to, or made. Makes nothing: the file belongs to the user of the server. */
async function requireLogFile(path: string): Promise<void> {
  if (path === 'off' || path === 'stderr') return;
  const stats = await stat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
    return undefined;
  });
  if (stats?.isDirectory()) throw new Error(`${path}: is a folder, not a file`);
  await access(stats ? path : dirname(path), constants.W_OK);
}

async function requireFolder(path: string | undefined): Promise<void> {
  if (path === undefined) return;
  if (!(await stat(path)).isDirectory()) throw new Error(`${path}: is not a folder`);
  await access(path, constants.W_OK);
}
