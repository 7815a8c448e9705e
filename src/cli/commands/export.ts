import type { Command } from 'commander';
import { LdapError } from '../../ldap/ldap-error.js';
import type { PartialAttribute } from '../../ldap/ldap-types.js';
import { formatEntry, formatEntryChunks, VERSION_LINE } from '../../ldif/index.js';
import { damageOf, largeQualifiers, type Partition, uuidText } from '../../partition/index.js';
import { STATE_ATTRIBUTES } from '../../partition/model/account-state.js';
import { generalizedTime } from '../../partition/model/csn.js';
import type { LostEntry, SalvagedEntry } from '../../partition/upkeep/salvage.js';
import { CredentialReader } from '../../server/passwords/credentials.js';
import { Policies } from '../../server/passwords/policies.js';
import { readStateValues, type StateServices } from '../../server/request/state-attributes.js';
import { AccessControl } from '../../server/services/access-control.js';
import { addSettingFlags } from '../config/index.js';
import { requireUndamagedPages } from '../damaged-pages.js';
import { CliError, pluralize } from '../exit.js';
import { AttributeSelection, type ExportAttribute, readEntryAttributes } from '../export/entry-attributes.js';
import { OutputStream } from '../export/output.js';
import { walkAll, walkMatching } from '../export/walk.js';
import { parseFilterArgument, requireAttributes } from '../filter.js';
import { type OpenDirectory, parseDnArgument, withDirectory } from '../open-directory.js';
import { directoryCommand, resolveSettings } from '../options.js';
import { Progress } from '../progress.js';

const EXAMPLES = `
Examples:
  Everything, with entryUUIDs, times and password hashes, so that an import gives the same directory:
    rowan export --data data --output backup.ldif

  One branch, or what matches, without operational attributes:
    rowan export --data data --base ou=people,dc=example,dc=com --no-operational
    rowan export --data data --filter '(mail=*@example.com)' | gzip > mail.ldif.gz
`;

interface ExportOptions {
  readonly base?: string;
  readonly filter?: string;
  readonly output?: string;
  readonly operational: boolean;
  readonly evenIfDamaged?: boolean;
}

async function writeEntry(
  partition: Partition,
  salvagedEntry: SalvagedEntry,
  selection: AttributeSelection,
  states: AccountStates | undefined,
  output: OutputStream,
  losses: LossReport,
): Promise<void> {
  const entry = { ...salvagedEntry, row: partition.presentRow(salvagedEntry.row) };
  const largeReader = largeQualifiers(entry.row) && (await partition.openLarge(entry.id));
  try {
    const dn = entry.dn.toString();
    const lostAttributes: string[] = [];
    const onLost = (attribute: string): void => void lostAttributes.push(attribute);
    const storedAttributes = await readEntryAttributes(entry, selection, largeReader, onLost);
    const attributes = (await states?.withStates(entry, storedAttributes, onLost)) ?? storedAttributes;
    for (const attribute of lostAttributes) await losses.reportValue(entry, attribute);
    if (isInMemory(attributes)) await output.write(formatEntry(dn, attributes));
    else for await (const bytes of formatEntryChunks(dn, attributes)) await output.write(bytes);
  } finally {
    largeReader?.close();
  }
}

/** Whether every value is in memory as a whole. */
function isInMemory(attributes: readonly ExportAttribute[]): attributes is PartialAttribute[] {
  return attributes.every(({ values }) => values.every((value) => value instanceof Uint8Array));
}

async function exportEntries(
  directory: OpenDirectory,
  options: ExportOptions,
  defaultPolicy: string | undefined,
): Promise<{ count: number; losses: LossReport }> {
  const { partition, schema } = directory;
  const filter = options.filter === undefined ? undefined : parseFilterArgument(options.filter);
  if (filter) requireAttributes(filter, schema);
  const bases = options.base === undefined ? partition.suffixes : [parseDnArgument(schema, options.base)];
  const selection = new AttributeSelection(schema, options.operational);
  const states = options.operational ? new AccountStates(directory, defaultPolicy) : undefined;
  const output = new OutputStream(options.output);
  const progress = options.output === undefined ? undefined : new Progress('export', 'entries');
  let count = 0;
  const losses = new LossReport(output);
  const exportEntry = async (found: SalvagedEntry): Promise<void> => {
    await writeEntry(partition, found, selection, states, output, losses);
    count++;
    progress?.update(count);
  };
  const sink = { entry: exportEntry, lost: (lost: LostEntry) => losses.reportEntry(lost) };
  await output.write(VERSION_LINE);
  for (const base of bases) {
    const walk = filter ? walkMatching(partition, base, filter, sink) : walkAll(partition, base, sink);
    await walk.catch((error: unknown) => {
      // A suffix may have no entry yet.
      if (options.base !== undefined || !(error instanceof LdapError) || error.result !== 'noSuchObject') throw error;
    });
  }
  await losses.end();
  await output.end();
  progress?.finish();
  return { count, losses };
}

/** Exports the state that binds have recorded for accounts, as attributes that an import takes over. */
class AccountStates {
  readonly #services: StateServices;

  constructor({ partition }: OpenDirectory, defaultPolicy: string | undefined) {
    const log = { warn: () => undefined, error: () => undefined };
    const policies = new Policies(partition, defaultPolicy, new AccessControl(partition, log), log);
    this.#services = { partition, policies, credentialReader: new CredentialReader(partition.descriptions) };
  }

  /**
   * Replaces stored state attributes by the current account state. The result is in the order of a row that has these
   * attributes. On damage, `onLost` gets a state attribute.
   */
  async withStates(
    entry: SalvagedEntry,
    attributes: ExportAttribute[],
    onLost: (attribute: string) => void,
  ): Promise<ExportAttribute[]> {
    try {
      return await this.#replaceStates(entry, attributes);
    } catch (error) {
      if (!damageOf(error)) throw error;
      onLost(STATE_ATTRIBUTES[0]);
      return attributes;
    }
  }

  async #replaceStates({ id, row }: SalvagedEntry, attributes: ExportAttribute[]): Promise<ExportAttribute[]> {
    const { partition, credentialReader } = this.#services;
    const { passwords, applications, account } = credentialReader.read(row);
    // Without passwords no bind is possible, so no state exists.
    if (passwords.length + applications.length === 0) return attributes;
    const values = await readStateValues(this.#services, id, true);
    if (!values) return attributes;
    const isKept = ({ type }: ExportAttribute): boolean =>
      type === 'pwdAccountLockedTime'
        ? values[type].length === 0
        : !(STATE_ATTRIBUTES as readonly string[]).includes(type);
    const states = STATE_ATTRIBUTES.map((type) => ({ type, values: values[type] }));
    const sinceMs = account?.changed === undefined ? (await partition.accountState(id))?.since : undefined;
    const changeTimes = sinceMs ? [{ type: 'pwdChangedTime', values: [Buffer.from(generalizedTime(sinceMs))] }] : [];
    const replaced = [
      ...attributes.filter(isKept),
      ...states.filter(({ values }) => values.length > 0),
      ...changeTimes,
    ];
    return replaced.sort((a, b) => (a.type < b.type ? -1 : 1));
  }
}

/** Reports what an export could not read: on standard error, and as comments in the output. */
class LossReport {
  readonly #output: OutputStream;
  #entryCount = 0;
  #valueCount = 0;

  constructor(output: OutputStream) {
    this.#output = output;
  }

  async reportEntry({ id, dn, reason }: LostEntry): Promise<void> {
    this.#entryCount++;
    const uuid = id ? `entryUUID ${uuidText(id)}` : 'unknown entries';
    await this.#printLoss(`lost entry: ${dn ? escapeControls(dn) : 'its name is not known'} (${uuid}; ${reason})`);
  }

  async reportValue({ id, dn }: SalvagedEntry, attribute: string): Promise<void> {
    this.#valueCount++;
    await this.#printLoss(`lost value: ${attribute} of ${escapeControls(dn)} (entryUUID ${uuidText(id)})`);
  }

  async #printLoss(message: string): Promise<void> {
    process.stderr.write(`rowan: ${message}\n`);
    await this.#writeComment(message);
  }

  async #writeComment(text: string): Promise<void> {
    await this.#output.write(Buffer.from(`# ${text}\n\n`));
  }

  /** Ends partial output with a comment. */
  async end(): Promise<void> {
    if (this.isPartial) await this.#writeComment(this.summary);
  }

  get isPartial(): boolean {
    return this.#entryCount + this.#valueCount > 0;
  }

  get summary(): string {
    const entries = pluralize(this.#entryCount, 'entry', 'entries');
    const values = this.#valueCount > 0 ? ` and ${pluralize(this.#valueCount, 'value')}` : '';
    return `this export is partial: ${entries}${values} could not be read`;
  }
}

/** Escapes control characters, which keeps the DN on one line. */
function escapeControls(dn: Buffer): string {
  return dn.toString().replace(/\p{Cc}/gu, (char) => `\\${char.charCodeAt(0).toString(16).padStart(2, '0')}`);
}

export function addExport(program: Command): void {
  const command = directoryCommand(program, 'export', 'write entries as LDIF, parents before children', EXAMPLES);
  addSettingFlags(command, ['passwords.policy'])
    .option('--base <dn>', 'only this entry and those below it')
    .option('--filter <filter>', 'only entries that match')
    .option('--output <file>', 'write to this file, which only its owner may read; it appears when it is complete')
    .option('--no-operational', 'leave out entryUUID, createTimestamp and the like')
    .option('--even-if-damaged', 'do not verify the pages of the data file first; export what can be read')
    .action(async (options: ExportOptions, command: Command) => {
      const settings = resolveSettings(command);
      if (!options.evenIfDamaged) await requireUndamagedPages(settings, 'export');
      await withDirectory(settings, { readOnly: true, inOrder: true }, async (directory) => {
        const { count, losses } = await exportEntries(directory, options, settings.config.passwords.policy);
        if (options.output !== undefined)
          process.stdout.write(`exported ${pluralize(count, 'entry', 'entries')} to ${options.output}\n`);
        if (losses.isPartial) throw new CliError(losses.summary);
      });
    });
}
