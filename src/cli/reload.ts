import { realpathSync } from 'node:fs';
import type { Logger } from 'pino';
import type { Schema } from '../schema/index.js';
import { formatAuditComments } from '../server/logs/audit-comments.js';
import {
  applySettings,
  type Config,
  compareConfigs,
  conflicts,
  type SettingChange,
  type SettingName,
  withValues,
} from '../server/settings/index.js';
import { appendAuditRecord } from './audit-record.js';
import { type ConfigSources, configFile, type LoadedConfig, loadConfig } from './config/index.js';
import { requireNamed } from './doctor/named-files.js';
import { describeError } from './exit.js';
import type { Route } from './http/http-server.js';

/** What a reload of the settings has found and done. */
export interface ReloadReport {
  /** Real path of the configuration file that the server reads; undefined: the server has none. */
  readonly file: string | undefined;
  /** Mistakes, because of which all old settings stay. */
  readonly problems: readonly string[];
  readonly changes: readonly SettingChange[];
  /** Flags and variables of the server by the settings that they set. They win over the file. */
  readonly overrides: Readonly<Partial<Record<SettingName, string>>>;
}

/** Name of the requester of a reload by signal. */
export const SIGHUP = 'SIGHUP';

/**
 * Loads the configuration of a running server again, and applies the settings that can change while it runs. Nothing is
 * applied when a changed setting names what this server, or the next one at its start, cannot use.
 */
export class SettingsReloader {
  readonly #sources: ConfigSources;
  readonly #config: Config;
  readonly #log: Logger;
  readonly #schema: Schema;
  readonly #renewCertificate: () => void;
  /** Texts of the changes that wait for a restart, as logged. */
  #loggedWaits: readonly string[] = [];
  #lastReload: Promise<unknown> = Promise.resolve();

  /**
   * `sources`: the file, variables and flags that the server was started with. `schema`: that of the directory, by
   * which new values are checked.
   */
  constructor(sources: ConfigSources, config: Config, log: Logger, schema: Schema, renewCertificate: () => void) {
    this.#sources = sources;
    this.#config = config;
    this.#log = log;
    this.#schema = schema;
    this.#renewCertificate = renewCertificate;
  }

  /** Reloads after the reloads that have begun. Never rejects. `requestedBy`: `SIGHUP`, or the user and process. */
  reload(requestedBy: string): Promise<ReloadReport> {
    const report = this.#lastReload.then(() => this.#reload(requestedBy));
    this.#lastReload = report;
    return report;
  }

  async #reload(requestedBy: string): Promise<ReloadReport> {
    const hadCertificate = this.#config.tls.cert !== undefined;
    const report = await this.#reloadSettings(requestedBy);
    // At SIGHUP the files may have been replaced, whatever the settings say.
    const isAsked = requestedBy === SIGHUP || report.changes.some(({ name }) => name.startsWith('tls.'));
    if (isAsked && (hadCertificate || this.#config.tls.cert !== undefined)) this.#renewCertificate();
    return report;
  }

  async #reloadSettings(requestedBy: string): Promise<ReloadReport> {
    const [config, log] = [this.#config, this.#log];
    const path = configFile(this.#sources);
    let file: string | undefined;
    try {
      file = path && realpathSync(path);
      const loaded = loadConfig(this.#sources);
      const { changes, liveValues } = compareConfigs(config, loaded.config);
      requireNoConflict(withValues(config, liveValues));
      const names = changes.map(({ name }) => name);
      await requireNamed(loaded, names, this.#schema);
      const newChanges = this.#logChanges(changes, requestedBy);
      // The end of the audit log is recorded where the log ends, its begin where it begins.
      const auditLog = config.auditLog.output === 'off' ? config.auditLog : { ...config.auditLog };
      await applySettings(config, liveValues);
      for (const change of newChanges) {
        const setting = `${describeChange(change)} (${change.effect})`;
        const record = `${formatAuditComments({ by: requestedBy, setting })}\n`;
        appendAuditRecord(auditLog, record, (message) => log.error(message));
      }
      return { file, problems: [], changes, overrides: listOverrides(loaded) };
    } catch (error) {
      const problems = describeError(error).split('\n');
      for (const problem of problems)
        log.error({ by: requestedBy, problem }, 'a mistake in the configuration: no setting is changed');
      return { file, problems, changes: [], overrides: {} };
    }
  }

  /** Logs and returns the changes, without those that wait for a restart and were logged before. */
  #logChanges(changes: readonly SettingChange[], requestedBy: string): readonly SettingChange[] {
    const log = this.#log;
    const waits = changes.filter(({ effect }) => effect === 'restart').map(describeChange);
    const newChanges = changes.filter((change) => !this.#loggedWaits.includes(describeChange(change)));
    this.#loggedWaits = waits;
    for (const { name, oldText, newText, effect } of newChanges) {
      if (effect === 'restart') continue;
      log.info({ by: requestedBy, setting: name, old: oldText, new: newText, effect }, 'a setting is changed');
    }
    const settings = newChanges.map(describeChange).filter((text) => waits.includes(text));
    if (settings.length > 0)
      log.warn(
        { by: requestedBy, settings: settings.join('; ') },
        'settings in the configuration take effect after a restart',
      );
    else if (newChanges.length === 0) log.info({ by: requestedBy }, 'no setting has changed');
    return newChanges;
  }
}

/** Returns the route of the control socket for a reload. Parameter `by` names user and process: `uid 0, pid 123`. */
export function reloadRoute(reloader: SettingsReloader): Route {
  return {
    method: 'POST',
    path: '/reload',
    handle: async ({ query }) => {
      const by = query.get('by') ?? '';
      const requester = /^uid [\d-]{1,10}, pid \d{1,10}$/.test(by) ? by : 'the control socket';
      return { type: 'application/json', body: JSON.stringify(await reloader.reload(requester)) };
    },
  };
}

/** Throws when the new live settings of `config` contradict the old values of the others. */
function requireNoConflict(config: Config): void {
  const [conflict] = conflicts(config);
  if (conflict)
    throw new Error(`${conflict.name} ${conflict.message} while the server runs with its old settings; restart it`);
}

function describeChange({ name, oldText, newText }: SettingChange): string {
  return `${name}: ${oldText} → ${newText}`;
}

function listOverrides({ origins }: LoadedConfig): ReloadReport['overrides'] {
  return Object.fromEntries([...origins].filter(([, origin]) => /^(?:--|ROWAN_)/.test(origin)));
}
