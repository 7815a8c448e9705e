import { closeSync, readFileSync, writeFileSync } from 'node:fs';
import type { Command } from 'commander';
import { type Translation, translate } from '../../access/from-slapd/from-slapd.js';
import type { Remark, RemarkKind } from '../../access/from-slapd/report.js';
import { AtomicFile } from '../atomic-file.js';
import { addSettingFlags } from '../config/index.js';
import { CliError } from '../exit.js';
import { configuredSchema } from '../open-directory.js';
import { loadSettings } from '../options.js';

const EXAMPLES = `
Examples:
  rowan access from-slapd /etc/ldap/slapd.conf > rules.yaml
  slapcat -n 0 | rowan access from-slapd --output rules.yaml -
  rowan access from-slapd 389.ldif --output rules.yaml     (aci values, on the entries they stand at)

The rules give nothing that the source did not, but where the list on standard error says so. Schema that the source's
attributes need is given by --schema-folders. Exit code 1: nothing could be read.
`;

const KINDS: Readonly<Record<RemarkKind, string>> = {
  left: 'not translated',
  less: 'gives less',
  secrets: 'gives less of secrets',
  differs: 'may give more',
  said: 'note',
};

function formatRemark({ line, kind, text }: Remark): string {
  return `line ${line}: ${KINDS[kind]}: ${text}\n`;
}

function formatSummary({ translatedCount, remarks }: Translation): string {
  const countTexts = Object.entries(KINDS).flatMap(([kind, name]) => {
    const count = remarks.filter((remark) => remark.kind === kind).length;
    return count === 0 ? [] : [`${count} × ${name}`];
  });
  const isExact = remarks.every(({ kind }) => kind === 'said');
  const countsText = countTexts.length === 0 ? '' : ` (${countTexts.join(', ')})`;
  return `${translatedCount} ${translatedCount === 1 ? 'line' : 'lines'} read; the rules are ${isExact ? 'exact' : 'not exact'}${countsText}\n`;
}

export function addFromSlapd(access: Command): void {
  const command = access
    .command('from-slapd <file>')
    .description("make rules from OpenLDAP's access lines, or from aci values; '-' reads standard input")
    .option('--output <file>', 'write the rules there');
  addSettingFlags(command, ['schema.folders', 'schema.nis'])
    .addHelpText('after', EXAMPLES)
    .action((file: string, { output }: { output?: string }, self: Command) => {
      const schema = configuredSchema(loadSettings(self));
      const translation = translate(readFileSync(file === '-' ? 0 : file, 'utf8'), schema);
      process.stderr.write(translation.remarks.map(formatRemark).join(''));
      if (translation.translatedCount === 0)
        throw new CliError(`${file} has no 'access', 'olcAccess' or 'aci' that can be read: nothing is written`);
      if (output === undefined) process.stdout.write(translation.yaml);
      else {
        const outputFile = new AtomicFile(output);
        writeFileSync(outputFile.fd, translation.yaml);
        closeSync(outputFile.fd);
        outputFile.finish();
      }
      process.stderr.write(formatSummary(translation));
    });
}
