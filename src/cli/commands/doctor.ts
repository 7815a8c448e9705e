import type { Command } from 'commander';
import { addSettingFlags } from '../config/index.js';
import { checkCertificate } from '../doctor/certificates.js';
import {
  checkAdministrator,
  checkBackup,
  checkClock,
  checkHistory,
  checkIndexes,
  checkSchema,
  checkStore,
} from '../doctor/directory.js';
import { type Finding, fault } from '../doctor/finding.js';
import { checkDisk, checkFiles, checkMemory, checkPermissions } from '../doctor/machine.js';
import { checkNamedFiles } from '../doctor/named-files.js';
import { checkPorts } from '../doctor/ports.js';
import { CliError, describeError, pluralize } from '../exit.js';
import { withDirectory } from '../open-directory.js';
import { directoryCommand, resolveSettings, type Settings } from '../options.js';

const EXAMPLES = `
Examples:
  Before a server is started, or beside a running one, with the settings of the server:
    rowan doctor --config /etc/rowan.yaml

  For programs:
    rowan doctor --config /etc/rowan.yaml --json

It ends with 1 if there is a fault. Warnings do not matter for that.
`;

const MACHINE_CHECKS = {
  ports: checkPorts,
  files: checkFiles,
  memory: checkMemory,
  disk: checkDisk,
  permissions: checkPermissions,
  settings: checkNamedFiles,
  certificate: checkCertificate,
};
const DIRECTORY_CHECKS = {
  store: checkStore,
  schema: checkSchema,
  administrator: checkAdministrator,
  clock: checkClock,
  indexes: checkIndexes,
  backup: checkBackup,
  history: checkHistory,
};

type Report = (Finding & { readonly check: string })[];

async function addFindings(report: Report, check: string, work: () => Promise<Finding[]>): Promise<void> {
  try {
    for (const finding of await work()) report.push({ check, ...finding });
  } catch (error) {
    report.push({ check, ...fault(describeError(error), '') });
  }
}

async function examine(settings: Settings): Promise<Report> {
  const report: Report = [];
  for (const [check, work] of Object.entries(MACHINE_CHECKS)) await addFindings(report, check, () => work(settings));
  await addFindings(report, 'store', () =>
    withDirectory(settings, { readOnly: true, anySchema: true }, async (directory) => {
      for (const [check, work] of Object.entries(DIRECTORY_CHECKS))
        await addFindings(report, check, () => work(directory, settings));
      return [];
    }),
  );
  return report;
}

function formatFinding({ check, state, text, remedy }: Report[number]): string {
  return `${state.padEnd(8)} ${check.padEnd(12)} ${text}\n${remedy === '' ? '' : `${' '.repeat(22)}→ ${remedy}\n`}`;
}

async function doctor(options: { json?: boolean }, command: Command): Promise<void> {
  const report = await examine(resolveSettings(command));
  process.stdout.write(options.json ? `${JSON.stringify(report, null, 2)}\n` : report.map(formatFinding).join(''));
  const { length } = report.filter(({ state }) => state === 'fault');
  if (length > 0) throw new CliError(pluralize(length, 'fault'));
}

export function addDoctor(program: Command): void {
  addSettingFlags(directoryCommand(program, 'doctor', 'look for what keeps a server from serving well', EXAMPLES))
    .option('--json', 'print the findings as JSON')
    .action(doctor);
}
