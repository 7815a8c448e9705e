import type { Logger } from 'pino';
import type { Partition } from '../../partition/index.js';
import type { Access, Actor } from '../../partition/model/directory-types.js';
import { describeLoss } from '../../partition/tree/missing-tables.js';
import type { PasswordVerifier } from '../../password/index.js';
import { Primary } from '../../replica/primary.js';
import type { Schema } from '../../schema/schema.js';
import type { Dn } from '../../schema/schema-types.js';
import { EntryEncoder } from '../entry/encode-entry.js';
import { Selections } from '../entry/selection.js';
import { Observation } from '../observation/observation.js';
import { CredentialReader } from '../passwords/credentials.js';
import { createBindVerifier, hashPolicyOf } from '../passwords/hash-policy.js';
import { HashUpgrades } from '../passwords/hash-upgrades.js';
import { PasswordHashing } from '../passwords/password-hashing.js';
import { Quality } from '../passwords/password-rules.js';
import { Policies } from '../passwords/policies.js';
import { SecondFactor } from '../passwords/second-factor.js';
import type { LongWorker, PrimaryLink, ReplicaServices } from '../processes/long-request.js';
import { ReplicaStates, type StateDirectory } from '../processes/replica-states.js';
import type { Siblings } from '../processes/siblings.js';
import { type PartFigures, Statistics } from '../processes/statistics.js';
import { type Config, onSettingsChanged } from '../settings/index.js';
import { VirtualEntries } from '../virtual/virtual-entries.js';
import { AccessControl } from './access-control.js';
import { Acknowledgements } from './acknowledgements.js';
import { FailedBinds } from './failed-binds.js';
import { OrderedLists } from './ordered-lists.js';
import { PageCookies } from './page-cookies.js';
import { SearchTally, SlowSearches } from './search-tally.js';

/** The author of a write, with rights that are decided in each attempt of the write. */
export type ServedActor = Actor & { readonly access: Access };

/** The part of the directory for operations: no maintenance, and no writes without an actor with rights. */
export type ServedDirectory = Pick<
  Partition,
  | 'accessVersion'
  | 'accountState'
  | 'adminPassword'
  | 'changeAccountState'
  | 'changeDecoyState'
  | 'compare'
  | 'compareVirtual'
  | 'accessRules'
  | 'deletedEntries'
  | 'descriptions'
  | 'feed'
  | 'findDeleted'
  | 'findStored'
  | 'findRow'
  | 'findVirtual'
  | 'findVisible'
  | 'findWritten'
  | 'freshAccessVersion'
  | 'groupsOf'
  | 'groupsVersion'
  | 'isTrial'
  | 'lockedAccounts'
  | 'moment'
  | 'placeById'
  | 'readById'
  | 'readStored'
  | 'renewReads'
  | 'searchAsOf'
  | 'requireAllowed'
  | 'schema'
  | 'search'
  | 'setAdminPassword'
  | 'settings'
  | 'suffixes'
  | 'transaction'
  | 'treeGeneration'
  | 'valueFilter'
  | 'versionOf'
> & { readonly store: Pick<Partition['store'], 'holdWrites'> } & {
  [Write in 'add' | 'modify' | 'rename' | 'delete']: (
    ...args: WithServedActor<Parameters<Partition[Write]>>
  ) => ReturnType<Partition[Write]>;
};

type WithServedActor<Args extends unknown[]> = { [I in keyof Args]: Args[I] extends Actor ? ServedActor : Args[I] };

/** The services that all operations of a server share. */
export interface Services {
  readonly partition: ServedDirectory;
  readonly schema: Schema;
  readonly admin: Dn;
  readonly config: Config;
  readonly log: Logger;
  readonly statistics: Statistics;
  readonly observation: Observation;
  /** The other processes of this server; undefined in a single process. */
  readonly siblings: Siblings | undefined;
  /** Runs long requests in another thread; undefined: long requests run in this thread. */
  readonly longWorker: LongWorker | undefined;
  readonly access: AccessControl;
  readonly selections: Selections;
  readonly encoder: EntryEncoder;
  readonly credentialReader: CredentialReader;
  readonly verifier: PasswordVerifier;
  readonly hashing: PasswordHashing;
  readonly upgrades: HashUpgrades;
  readonly policies: Policies;
  readonly quality: Quality;
  readonly secondFactor: SecondFactor;
  readonly pageCookies: PageCookies;
  readonly orderedLists: OrderedLists;
  readonly slowSearches: SlowSearches;
  /** Undefined with `indexes.auto: off`. */
  readonly searchTally: SearchTally | undefined;
  readonly failedBinds: FailedBinds;
  /** Sends changes to replicas. */
  readonly primary: Primary;
  readonly acknowledgements: Acknowledgements;
  /** Runs writes at the primary; undefined: this server is no replica now. */
  readonly primaryLink: PrimaryLink | undefined;
  readonly states: StateDirectory;
  readonly replica: ReplicaServices | undefined;
  readonly virtual: VirtualEntries;
  /** Numbers of searches that wait for changes, by user. */
  readonly followedSearches: Map<string, number>;
}

/** The other processes and threads of the server, and the figures of its parts. */
export interface Helpers extends Partial<Pick<Services, 'siblings' | 'longWorker' | 'replica'>> {
  readPartFigures?(): PartFigures;
}

export function createServices(
  partition: Partition,
  config: Config,
  log: Logger,
  { siblings, longWorker, replica, readPartFigures }: Helpers = {},
): Services {
  const { schema } = partition;
  logOutages(partition, log);
  const statistics = new Statistics(siblings?.workerNumber, readPartFigures);
  const access = new AccessControl(partition, log);
  const encoder = new EntryEncoder(partition.descriptions, partition);
  const hashing = new PasswordHashing(schema, config, log);
  const primary = new Primary(partition.store);
  primary.onSharedName = (replica) => log.warn({ replica }, 'two connections follow with one name: grant each its own');
  const services = {
    partition,
    schema,
    admin: schema.parseDn(partition.settings.adminDn),
    config,
    log,
    statistics,
    observation: new Observation(),
    siblings,
    longWorker,
    access,
    selections: createSelections(schema, config),
    encoder,
    credentialReader: new CredentialReader(encoder.table, config.passwords.shadow),
    verifier: createBindVerifier(config, log),
    hashing,
    upgrades: new HashUpgrades(partition, hashing, config.passwords, log),
    policies: new Policies(partition, config.passwords.policy, access, log),
    quality: new Quality(config, log),
    secondFactor: new SecondFactor(config.passwords.totpKey, log),
    pageCookies: new PageCookies(partition, config.limits),
    orderedLists: new OrderedLists(config.limits),
    slowSearches: new SlowSearches(config.log, log),
    searchTally: replica?.link ? undefined : createTally(partition, config, log),
    failedBinds: new FailedBinds(schema, log),
    primary,
    acknowledgements: new Acknowledgements({ primary, config, siblings, log }),
    replica,
    get primaryLink(): PrimaryLink | undefined {
      return replica?.link;
    },
    states: replica?.states ?? new ReplicaStates(partition, () => undefined),
    virtual: new VirtualEntries(partition, config, statistics, siblings, primary),
    followedSearches: new Map<string, number>(),
  };
  onSettingsChanged(config, (values) => {
    const hasChanged = (prefix: string): boolean => Object.keys(values).some((name) => name.startsWith(prefix));
    if (hasChanged('groups.')) services.selections = createSelections(schema, config);
    // The cache of credentials starts empty.
    if (hasChanged('credentialCache.') || hasChanged('passwords.')) services.verifier = createBindVerifier(config, log);
    hashing.policy = hashPolicyOf(config);
    if (hasChanged('indexes.') || hasChanged('log.')) {
      void services.searchTally?.flush();
      services.searchTally = replica?.link ? undefined : createTally(partition, config, log);
    }
  });
  return services;
}

function createTally(partition: Partition, config: Config, log: Logger): SearchTally | undefined {
  return config.indexes.auto === 'off' ? undefined : new SearchTally(partition, config, log);
}

function createSelections(schema: Schema, { groups }: Config): Selections {
  return new Selections(schema, groups.memberOf);
}

/**
 * Logs when the directory's store stops answering and when it answers again, and likewise when its disk is full and
 * when it has room again.
 */
export function logOutages({ outage, store }: Partition, log: Logger): void {
  outage.listener = {
    onOutage: (message) => log.warn(`the store does not answer: ${message}`),
    onMissing: (table) => log.error(`table ${table} is missing: it was dropped in HBase; ${describeLoss(table)}`),
    onRecovery: (ms) => log.info(`the store answers again, ${(ms / 1000).toFixed(1)} s after that was told`),
  };
  store.onRoomChange = (isFull, folder, freeBytes) => {
    if (isFull) log.error({ folder, freeBytes }, 'the disk is full: writes fail until space is freed');
    else log.info({ folder, freeBytes }, 'the disk has room again: a write has succeeded');
  };
}
