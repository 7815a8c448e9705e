import type { Socket } from 'node:net';
import { createSecureContext, type SecureContext } from 'node:tls';
import type { Logger } from 'pino';
import { ResultCode } from '../ldap/ldap-error.js';
import type { Partition } from '../partition/index.js';
import { slowWork } from '../password/index.js';
import { writeDisconnection } from '../protocol/encode.js';
import type { DecodeLimits } from '../protocol/limits.js';
import { Writer } from '../protocol/writer.js';
import { ownReplication } from '../replica/report.js';
import { Budget } from './connection/budget.js';
import { Connection, type ConnectionOwner } from './connection/connection.js';
import { LongAdmission } from './connection/long-admission.js';
import { Rounds } from './connection/rounds.js';
import { UnsentTotal } from './connection/send-queue.js';
import {
  createReceiver,
  type Listener,
  openListeners,
  parseListenUrl,
  type Receiver,
  Roster,
} from './listen/listener.js';
import { readTls, type TlsMaterial } from './listen/tls-material.js';
import { startLogs } from './logs/logs.js';
import { ReplicaRole } from './long/primary-link.js';
import { observeWithSpans } from './observation/spans.js';
import type { Answer, Question, Siblings } from './processes/siblings.js';
import { EventLoopMeter, type PartFigures } from './processes/statistics.js';
import { createServices, type Helpers, type Services } from './services/services.js';
import { decodeLimits } from './settings/decode-limits.js';
import { applySettings, type Config, type LiveValues, onSettingsChanged } from './settings/index.js';
import { Watches } from './watch/watches.js';

const MAX_CHECK_INTERVAL_SECONDS = 1;

/** The directory server: listens, accepts connections, and closes them in order. */
export class RowanServer implements ConnectionOwner {
  readonly services: Services;
  readonly #config: Config;
  readonly decodeLimits: DecodeLimits;
  readonly requestBudget: Budget;
  readonly longAdmission: LongAdmission;
  readonly unsentTotal: UnsentTotal;
  readonly rounds = new Rounds();
  readonly #connections = new Roster<Connection>();
  readonly #siblings: Siblings | undefined;
  readonly #watches: Watches;
  #receivers: Receiver[] = [];
  #listeners: Listener[] = [];
  /** Number of connections of the other processes. */
  #siblingConnectionCount = 0;
  #deadlineTimer: NodeJS.Timeout | undefined;
  #closePromise: Promise<void> | undefined;
  #onAllClosed: (() => void) | undefined;
  readonly #endSettingsCalls: () => void;
  #endLogs: (() => Promise<void>) | undefined;
  #endSpans: (() => void) | undefined;
  secureContext: SecureContext | undefined;
  #certificateExpiresAt: number | undefined;
  readonly #loopMeter = new EventLoopMeter();

  /** With `siblings` the server is one of several processes on one directory. */
  constructor(partition: Partition, config: Config, log: Logger, helpers: Helpers = {}) {
    this.#config = config;
    const readPartFigures = () => this.#partFigures(partition);
    const replica = new ReplicaRole(partition, config, log);
    this.services = createServices(partition, config, log, { ...helpers, replica, readPartFigures });
    this.#watches = new Watches(this.services);
    this.#siblings = helpers.siblings;
    this.decodeLimits = decodeLimits(config);
    this.unsentTotal = new UnsentTotal(config.limits.allUnsentBytes);
    this.requestBudget = new Budget(Math.max(config.limits.requestBytes, config.limits.messageBytes));
    this.longAdmission = new LongAdmission(config.limits);
    this.#endSettingsCalls = onSettingsChanged(config, (values) => this.#adoptSettings(values));
  }

  /** Takes over the live settings that are not read from the configuration at each use. */
  #adoptSettings(values: LiveValues): void {
    const { limits } = this.#config;
    Object.assign(this.decodeLimits, decodeLimits(this.#config));
    this.unsentTotal.limitBytes = limits.allUnsentBytes;
    this.requestBudget.limitBytes = Math.max(limits.requestBytes, limits.messageBytes);
    this.longAdmission.adoptLimits();
    if (this.#deadlineTimer) this.#startDeadlineChecks();
    if (this.#endLogs && ('accessLog.output' in values || 'auditLog.output' in values)) {
      void this.#endLogs();
      this.#endLogs = startLogs(this.services);
    }
  }

  /** Listens on all configured URLs, or on none after an error. Resolves with the URLs that clients use. */
  async listen(): Promise<string[]> {
    const addresses = this.#config.listen.map(parseListenUrl);
    await this.prepare();
    const { log } = this.services;
    const nets = this.#receivers.map(({ net }) => net);
    this.#listeners = await openListeners(addresses, nets, this.#config, log);
    return this.#listeners.map((listener) => listener.url);
  }

  /** Prepares for sockets, including those that another process accepts. */
  async prepare(): Promise<void> {
    // Rules are compiled before the first client connects, so that requests can be refused by their first bytes.
    await this.services.access.rulesInForce();
    await this.services.quality.requireUsable();
    // A missing policy is logged at the start, not at the first bind.
    await this.services.policies.anyCountsFailures();
    const tls = await readTls(this.#config);
    this.#useTls(tls);
    this.#endLogs = startLogs(this.services);
    const options = {
      tls,
      handshakeSeconds: this.#config.limits.bindSeconds,
      log: this.services.log,
      onConnection: (socket: Socket) => this.#accept(socket),
    };
    this.#receivers = this.#config.listen.map((url) => createReceiver(parseListenUrl(url), options));
    this.#startDeadlineChecks();
    this.#endSpans ??= await observeWithSpans(this.services.observation);
  }

  /**
   * Takes a socket that another process accepted at the URL with this index in `listen`. `siblingConnections`: number
   * of connections of the other processes.
   */
  receive(index: number, socket: Socket, siblingConnections: number): void {
    this.#siblingConnectionCount = siblingConnections;
    this.#receivers[index]!.receive(socket);
  }

  /** Answers a question of another process. */
  answer(question: Question): Answer {
    const { statistics, upgrades } = this.services;
    if (question.about === 'counts') return { counts: statistics.counts() };
    if (question.about === 'operations') return { operations: this.#watches.lines(question.watcher, question.filter) };
    if (question.about === 'top') return { top: this.#watches.top(question.watcher) };
    if (question.about === 'replicas') return ownReplication(this.services.primary);
    if (question.about === 'serving') return { isServing: this.#closePromise === undefined };
    if (question.about === 'settings') {
      void applySettings(this.#config, question.values);
      return {};
    }
    const storedHash = Buffer.from(question.stored);
    const upgradedHash = upgrades.currentHash(Buffer.from(question.id), storedHash);
    return { upgradedHash: upgradedHash === storedHash ? undefined : upgradedHash };
  }

  /** Makes later reads see all changes that other processes made before the client sent these bytes. */
  onBytesArrived(): void {
    if (this.#siblings && !this.#siblings.isAlone) this.services.partition.renewReads();
  }

  /** Reads certificate and key again for new handshakes, or rejects and keeps the old ones. False without TLS. */
  async renewCertificate(): Promise<boolean> {
    const tls = await readTls(this.#config);
    this.#useTls(tls);
    if (!tls) return false;
    for (const receiver of this.#receivers) receiver.renewCertificate(tls);
    return true;
  }

  #useTls(tls: TlsMaterial | undefined): void {
    this.secureContext = tls && createSecureContext({ ...tls, cert: tls.certificate });
    this.#certificateExpiresAt = tls?.expiresAt;
    if (!tls || tls.expiresAt > Date.now()) return;
    const expiredAt = new Date(tls.expiresAt).toISOString();
    this.services.log.warn({ expiredAt }, 'the certificate has expired: clients refuse it; replace it and send SIGHUP');
  }

  #partFigures({ store }: Partition): PartFigures {
    let connectionsWaiting = 0;
    let connectionsUnread = 0;
    for (const connection of this.#connections) {
      if (connection.isWaiting) connectionsWaiting++;
      if (connection.isUnread) connectionsUnread++;
    }
    const { verifier, longWorker } = this.services;
    const commits = store.stats;
    const gauges = {
      waitingHashes: slowWork.waitingCount,
      longRequests: longWorker && this.longAdmission.requestCount,
      waitingCommits: commits?.waiting,
      waitingRequests: this.requestBudget.waitingCount + this.longAdmission.budget.waitingCount,
      requestBytes: this.requestBudget.usedBytes,
      unsentBytes: this.unsentTotal.bytes,
      certificateExpiresAt: this.#certificateExpiresAt,
      saturation: this.#loopMeter.saturation,
    };
    const totals = {
      commits: commits?.batches,
      committedPlans: commits?.plans,
      commitMs: commits?.ms,
      passwordCacheHits: verifier.cacheUse.hits,
      passwordCacheMisses: verifier.cacheUse.misses,
    };
    return { connectionsWaiting, connectionsUnread, gauges, totals, loopLag: this.#loopMeter.lag };
  }

  #stopListening(): void {
    for (const listener of this.#listeners) listener.close();
    this.#listeners = [];
  }

  #startDeadlineChecks(): void {
    const { bindSeconds, slowReaderSeconds, idleSeconds } = this.#config.limits;
    const timeoutSeconds = [bindSeconds, slowReaderSeconds, idleSeconds].filter((seconds) => seconds > 0);
    const intervalSeconds = Math.min(MAX_CHECK_INTERVAL_SECONDS, ...timeoutSeconds.map((seconds) => seconds / 4));
    clearInterval(this.#deadlineTimer);
    this.#deadlineTimer = setInterval(() => this.#checkDeadlines(), intervalSeconds * 1000).unref();
  }

  #checkDeadlines(): void {
    const now = performance.now();
    for (const connection of this.#connections) connection.checkDeadlines(now);
  }

  #accept(socket: Socket): void {
    const { statistics, config } = this.services;
    if (this.#connections.size + this.#siblingConnectionCount >= config.limits.connections || this.#closePromise) {
      statistics.connectionsRefused++;
      refuse(socket, this.#closePromise ? 'unavailable' : 'busy');
      return;
    }
    statistics.connectionsTotal++;
    this.#connections.add(new Connection(socket, this));
    statistics.connectionsCurrent = this.#connections.size;
  }

  onConnectionClosed(connection: Connection): void {
    this.#connections.delete(connection);
    this.services.statistics.connectionsCurrent = this.#connections.size;
    if (this.#connections.size === 0) this.#onAllClosed?.();
  }

  /**
   * Stops accepting, lets outstanding operations end, and closes all connections. Resolves when all connections are
   * closed, after `shutdownSeconds` at the latest. The partition stays open. May be called twice.
   */
  close(): Promise<void> {
    this.#closePromise ??= this.#close();
    return this.#closePromise;
  }

  async #close(): Promise<void> {
    this.#stopListening();
    await this.services.acknowledgements.close();
    this.services.primary.close();
    this.services.replica?.close();
    const allClosed = new Promise<void>((resolve) => {
      this.#onAllClosed = resolve;
    });
    for (const connection of this.#connections) connection.shutDown();
    const timeout = setTimeout(() => {
      for (const connection of this.#connections) connection.destroy();
    }, this.#config.shutdownSeconds * 1000);
    if (this.#connections.size > 0) await allClosed;
    clearTimeout(timeout);
    clearInterval(this.#deadlineTimer);
    this.#endSettingsCalls();
    this.#endSpans?.();
    this.#loopMeter.stop();
    for (const receiver of this.#receivers) receiver.endHandshakes();
    await this.services.upgrades.waitForUpgrades();
    await this.services.searchTally?.flush();
    this.services.orderedLists.close();
    await this.#endLogs?.();
  }
}

/** Refuses a connection with a Notice of Disconnection (RFC 4511 §4.4.1). */
function refuse(socket: Socket, result: 'busy' | 'unavailable'): void {
  const writer = new Writer();
  const message = result === 'busy' ? 'too many connections' : 'the server is shutting down';
  writeDisconnection(writer, ResultCode[result], message);
  socket.on('error', () => socket.destroy());
  socket.end(writer.take());
  socket.setTimeout(1000, () => socket.destroy());
}
