import { ARGON2_LIMITS } from '../../password/limits.js';
import type { Bounded, LiveEffect, SettingSpec } from './kinds.js';

function integer(defaultValue: number, bounds: Bounded, live?: LiveEffect) {
  return { kind: 'integer', default: defaultValue, ...bounds, live } as const;
}

function size(defaultValue: number, bounds: Bounded, live?: LiveEffect) {
  return { kind: 'size', default: defaultValue, ...bounds, live } as const;
}

function seconds(defaultValue: number, bounds: Bounded, live?: LiveEffect) {
  return { kind: 'duration', unit: 'seconds', default: defaultValue, ...bounds, live } as const;
}

function days(defaultValue: number, bounds: Bounded, live?: LiveEffect) {
  return { kind: 'duration', unit: 'days', default: defaultValue, ...bounds, live } as const;
}

function boolean(defaultValue: boolean, live?: LiveEffect) {
  return { kind: 'boolean', default: defaultValue, live } as const;
}

function choice<const C extends readonly string[]>(choices: C, defaultValue: C[number], live?: LiveEffect) {
  return { kind: 'choice', choices, default: defaultValue, live } as const;
}

function text(pattern: RegExp, form: string, live?: LiveEffect) {
  return { kind: 'text', pattern, form, live } as const;
}

function path(live?: LiveEffect) {
  return { kind: 'path', live } as const;
}

function output(words: readonly string[]) {
  return { kind: 'output', words, default: 'off', live: 'at once' } as const;
}

function schedule(defaultValue: string) {
  return { kind: 'schedule', default: defaultValue, live: 'next run' } as const;
}

const ROTATION_SIZES = { min: 1024, max: 1024 ** 4, zeroIsUnlimited: true };
const ROTATION_DAYS = { min: 1, max: 36_500, zeroIsUnlimited: true };
const ROTATION_HELP = {
  size: 'The log goes on in a new file when the file has so many bytes.',
  days: 'The log goes on in a new file when the first line of the file is so old.',
  keep: 'Former files of the log that are kept.',
};

/**
 * The table of all settings. The configuration file, flags, variables, checks, `--help`, `rowan config` and
 * docs/configuration.md follow from it. A name is the path in the YAML file; `settingFlag` and `settingVariable` derive
 * the names of the flag and the variable.
 */
export const settings = {
  data: { ...path(), help: 'Folder of the directory, made by `rowan init`.' },
  store: {
    ...text(/^hbase:\/\/[^\s]{0,2000}$/, 'an address like hbase://HOST:PORT,HOST:PORT/PREFIX'),
    help: 'HBase that holds the directory, instead of `data`: `hbase://HOST:PORT[,HOST:PORT…][/[NAMESPACE:]PREFIX]`, its masters and what its tables begin with (docs/hbase.md).',
  },
  'hbase.site': {
    ...path(),
    help: 'An hbase-site.xml. It gives the masters (`hbase.masters`) where `store` is `hbase:///PREFIX`, and the timeouts of the cluster.',
  },
  'hbase.rest': {
    ...text(/^(?:none|https?:\/\/[^\s]{1,2000})$/, 'the URL of a REST gateway, like http://HOST:8080, or none'),
    help: 'REST gateway over which tables are made and dropped; `none`: an operator does it (`rowan hbase schema`). Without it the gateway is sought on the first master, at 8080 where that is at 16000.',
  },
  'hbase.durability': {
    ...choice(['default', 'fsync'], 'default'),
    help: 'What an acknowledged write has reached: `default`, the memory of the data nodes that keep copies; `fsync`, their disks. It is set when tables are made.',
  },
  'hbase.operationSeconds': {
    ...seconds(30, { min: 1, max: 3600 }),
    help: 'Deadline of one operation on HBase, retries included; then the client is told `unavailable`.',
  },
  'hbase.user': {
    ...text(/^[\w.@-]{1,200}$/, 'a user name'),
    help: 'Who HBase takes Rowan for, where it does not ask for proof: `rowan` unless given.',
  },
  'hbase.regions': {
    ...integer(0, { min: 0, max: 1000 }),
    help: 'Regions that a large table begins with; 0: as many as there are region servers (`rowan hbase schema`: 8).',
  },
  listen: {
    kind: 'urls',
    default: ['ldap://127.0.0.1:1389'],
    help: 'Where to listen: `ldap://`, `ldaps://` (needs `tls.cert`) and `ldapi://` URLs. The host `localhost` is 127.0.0.1 and ::1, as far as the machine has them; without a host it is every address. The flag may be repeated.',
  },
  workers: {
    kind: 'count',
    default: 'auto',
    min: 1,
    max: 256,
    help: 'Processes that serve, one for each core at most. `auto`: one; another when those that there are have been busy for 5 s, up to the number of cores less one, 8 at most; one fewer when they have been idle for 5 minutes. With a number above 1, another process accepts the connections and shares them out.',
  },

  'tls.cert': {
    ...path('next connection'),
    help: 'Certificate chain, PEM. With it StartTLS and `ldaps://` are offered.',
  },
  'tls.key': { ...path('next connection'), help: 'Private key of the certificate, PEM.' },
  'tls.ca': {
    ...path('next connection'),
    help: 'Certificates, PEM, of the authorities above the certificate, where `tls.cert` holds it alone: clients are sent them with it. No certificate is asked of clients.',
  },
  'tls.minVersion': {
    ...choice(['TLSv1.2', 'TLSv1.3'], 'TLSv1.2', 'next connection'),
    help: 'Oldest TLS version spoken.',
  },

  'http.listen': {
    kind: 'text',
    alias: 'http',
    pattern:
      /^(?:\[[0-9A-Fa-f:.]{2,45}\]|[\w.-]{1,255}):(?:\d{1,4}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d\d|655[0-2]\d|6553[0-5])$/,
    form: 'an address like 127.0.0.1:8389 or [::1]:8389, with a port of 65535 at most',
    help: 'Address and port for health checks and metrics over HTTP, such as `127.0.0.1:8389` (docs/operations.md); none unless given. Other machines need the token of `http.tokenFile` for metrics.',
  },
  'http.tokenFile': {
    ...path(),
    help: 'File with the token that `http.listen` wants as `Authorization: Bearer TOKEN` for metrics; needed on an address that other machines reach.',
  },
  'control.folder': {
    ...path(),
    help: 'Folder of the control socket, through which commands such as `rowan tail` ask a running server; `data` unless given.',
  },

  'ldapi.mode': {
    kind: 'mode',
    default: '666',
    help: 'Permissions of `ldapi://` sockets, octal: who may write to one may connect. Who they are is told by a bind, as elsewhere.',
  },

  'passwords.scheme': {
    ...choice(['argon2id', 'ssha512'], 'argon2id', 'at once'),
    help: 'How passwords given in the clear are stored.',
  },
  'passwords.argon2.memoryKiB': {
    ...integer(19_456, { min: 64, max: ARGON2_LIMITS.memoryKiB.max }, 'at once'),
    help: 'Memory of one argon2id hash, in KiB.',
  },
  'passwords.argon2.timeCost': {
    ...integer(2, { min: ARGON2_LIMITS.timeCost.min, max: ARGON2_LIMITS.timeCost.max }, 'at once'),
    help: 'Passes of one argon2id hash.',
  },
  'passwords.argon2.parallelism': {
    ...integer(1, { min: ARGON2_LIMITS.parallelism.min, max: ARGON2_LIMITS.parallelism.max }, 'at once'),
    help: 'Lanes of one argon2id hash.',
  },
  'passwords.maxCost': {
    ...integer(32, { min: 1, max: 1000 }, 'at once'),
    help: 'Most that verifying a stored hash may cost, and all of an entry together, in multiples of argon2id with 19 MiB and 2 passes (about 20 ms of a core). Dearer ones are refused when they are stored, left out by import, and never verified.',
  },
  'passwords.policy': {
    ...text(/^.{1,2000}=.{0,2000}$/s, 'a DN'),
    help: 'DN of the password policy, an entry of class `pwdPolicy`, that holds for those for whom neither their entry (`pwdPolicySubentry`) nor the access rules (`passwordPolicies`) name another (docs/passwords.md). Unless given, there is none.',
  },
  'passwords.shadow': {
    ...boolean(false),
    help: 'Heed what RFC 2307 has of accounts, as pam_unix does: nobody binds from the day `shadowExpire` on, and a password has to be changed when `shadowLastChange` is 0 or more than `shadowMax` days ago; a change writes `shadowLastChange` (docs/passwords.md).',
  },
  'passwords.breached': {
    ...path(),
    help: 'Passwords that are known from breaches, which nobody under a policy with `pwdCheckQuality` may choose: a sorted file of SHA-1 hashes, or a folder of files that are named by their first five digits (docs/passwords.md).',
  },
  'passwords.check': {
    ...path(),
    help: 'A module of your own that says what is wrong with a new password under a policy with `pwdCheckQuality` (docs/passwords.md).',
  },
  'passwords.totpKey': {
    ...path(),
    help: 'File of 32 random bytes, the key under which secrets of second factors are stored; the same at every front end (docs/passwords.md). Without it nobody binds who has a second factor.',
  },
  'passwords.upgradeAtBind': {
    ...boolean(true, 'at once'),
    help: 'Store a password anew when its owner binds and it is stored in a weaker or dearer way than `passwords.scheme`.',
  },
  'passwords.allowHashed': {
    ...boolean(false, 'at once'),
    help: 'Let users change their own password by a value that begins with `{SCHEME}`, of which nobody can tell what it is worth, or whether anybody can bind with it. Administrators may in any case.',
  },
  'passwords.requireTls': {
    ...boolean(false, 'at once'),
    help: 'Refuse binds with a password, and changes of passwords, on connections that are neither TLS nor `ldapi://`.',
  },

  'credentialCache.enabled': {
    ...boolean(true, 'at once'),
    help: 'Remember in memory for a short time which credentials were verified, so that the next bind is fast.',
  },
  'credentialCache.seconds': {
    ...seconds(60, { min: 1, max: 3600 }, 'at once'),
    help: 'How long they are remembered. A changed password is never served from the cache.',
  },
  'credentialCache.entries': {
    ...integer(10_000, { min: 1, max: 1_000_000 }, 'at once'),
    help: 'How many are remembered; 40 bytes of memory each.',
  },

  'limits.messageBytes': {
    ...size(16 * 1024 ** 2, { min: 64 * 1024, max: 256 * 1024 ** 2 }, 'next connection'),
    help: 'Largest request. It bounds the largest value that can be added over LDAP.',
  },
  'limits.unboundMessageBytes': {
    ...size(64 * 1024, { min: 4 * 1024, max: 256 * 1024 ** 2 }, 'next connection'),
    help: 'Largest request of a client that has not bound.',
  },
  'limits.requestBytes': {
    ...size(64 * 1024 ** 2, { min: 1024 ** 2, max: 64 * 1024 ** 3 }, 'at once'),
    help: 'Requests that arrive or are at work, of all connections of a process together. Large ones wait until there is room, and one user has no more than half of it; each small one counts 6 KiB more than its bytes, or ½ KiB for each of its BER elements. Requests of many elements may take as much again when they are decoded, and one user has a quarter of that.',
  },
  'limits.filterDepth': { ...integer(100, { min: 8, max: 500 }, 'at once'), help: 'Nesting of a filter.' },
  'limits.filterNodes': {
    ...integer(10_000, { min: 16, max: 1_000_000 }, 'at once'),
    help: 'Terms of a filter, `&`, `|` and `!` included.',
  },
  'limits.controls': { ...integer(32, { min: 4, max: 1000 }, 'at once'), help: 'Controls of a request.' },
  'limits.requestsInFlight': {
    ...integer(1000, { min: 1, max: 100_000 }, 'at once'),
    help: 'Requests of one connection at work; more are read when some have been answered. Searches that wait for changes are not counted.',
  },
  'limits.followedSearches': {
    ...integer(100, { min: 1, max: 100_000 }, 'at once'),
    help: 'Searches of one user that wait for changes (persistent search, content synchronization), in each process; more are refused with 11.',
  },
  'limits.transactionOperations': {
    ...integer(200, { min: 1, max: 100_000 }, 'at once'),
    help: 'Operations of one connection that wait for the end of their transactions (docs/server.md); another one aborts its transaction.',
  },
  'limits.transactionBytes': {
    ...size(1024 ** 2, { min: 4 * 1024, max: 64 * 1024 ** 2 }, 'at once'),
    help: 'Bytes of these requests. Those of all connections of a process together take at most a quarter of `limits.requestBytes`, those of one user a sixteenth.',
  },
  'limits.transactionIdleSeconds': {
    ...seconds(60, { min: 1, max: 3600 }, 'at once'),
    help: 'A transaction is aborted when none of its operations has come for so long.',
  },
  'limits.longRequests': {
    ...integer(1000, { min: 2, max: 1_000_000 }, 'at once'),
    help: 'Requests of a process at a time that would hold it for long and are done in a thread, or wait for it; one user has no more than half of them. More are answered `busy`, except to a user who has less than a sixteenth of them.',
  },
  'limits.unsentBytes': {
    ...size(4 * 1024 ** 2, { min: 64 * 1024, max: 1024 ** 3 }, 'next connection'),
    help: 'Replies of one connection that wait for the client; beyond it searches pause.',
  },
  'limits.allUnsentBytes': {
    ...size(64 * 1024 ** 2, { min: 1024 ** 2, max: 64 * 1024 ** 3 }, 'at once'),
    help: 'Replies that wait for clients, of all connections of a process together. Each connection may have as much waiting as is free; beyond it its searches pause.',
  },
  'limits.slowReaderSeconds': {
    ...seconds(60, { min: 1, max: 86_400, zeroIsUnlimited: true }, 'at once'),
    help: 'A client that reads nothing of its waiting replies for so long is disconnected.',
  },
  'limits.idleSeconds': {
    ...seconds(900, { min: 1, max: 31_536_000, zeroIsUnlimited: true }, 'at once'),
    help: 'A connection without requests is closed after so long.',
  },
  'limits.bindSeconds': {
    ...seconds(30, { min: 1, max: 3600 }),
    help: 'Time for a TLS handshake, for the first request after it, and for the rest of a request that has begun.',
  },
  'limits.connections': {
    ...integer(10_000, { min: 1, max: 1_000_000 }, 'at once'),
    help: 'Connections at a time, of all workers together; more are refused.',
  },
  'limits.pageCookieSeconds': {
    ...seconds(3600, { min: 1, max: 604_800 }, 'at once'),
    help: 'How long a client may wait before it asks for the next page of a search.',
  },
  'limits.sortBytes': {
    ...size(1024 ** 3, { min: 1024 * 1024, max: 1024 ** 4 }, 'at once'),
    help: 'Temporary files of sorted searches, of each process, in the folder that the variable `TMPDIR` names.',
  },
  'limits.search.sizeLimit': {
    ...integer(10_000, { min: 1, max: 2_147_483_647, zeroIsUnlimited: true }, 'at once'),
    help: 'Entries of one search of a user, or of one page of it.',
  },
  'limits.search.timeLimitSeconds': {
    ...seconds(60, { min: 1, max: 86_400, zeroIsUnlimited: true }, 'at once'),
    help: 'Time of one search of a user.',
  },
  'limits.search.lookLimit': {
    ...integer(0, { min: 1, max: 2_147_483_647, zeroIsUnlimited: true }, 'at once'),
    help: 'Entries that one search of a user may look at; it bounds searches that no index serves.',
  },
  'limits.admin.sizeLimit': {
    ...integer(0, { min: 1, max: 2_147_483_647, zeroIsUnlimited: true }, 'at once'),
    help: 'As `limits.search.sizeLimit`, for the administrator.',
  },
  'limits.admin.timeLimitSeconds': {
    ...seconds(0, { min: 1, max: 86_400, zeroIsUnlimited: true }, 'at once'),
    help: 'As `limits.search.timeLimitSeconds`, for the administrator.',
  },
  'limits.admin.lookLimit': {
    ...integer(0, { min: 1, max: 2_147_483_647, zeroIsUnlimited: true }, 'at once'),
    help: 'As `limits.search.lookLimit`, for the administrator.',
  },

  'aliases.dereference': {
    ...boolean(true, 'at once'),
    help: 'Follow aliases in searches that ask for it; `false` treats them as plain entries.',
  },

  'groups.nested': {
    ...boolean(true, 'at once'),
    help: 'Groups in groups count for `memberOf`: what it has, what filters and compares find by it. `false`: an entry has the groups alone that name it themselves, or whose URLs find it (docs/groups.md).',
  },
  'groups.memberOf': {
    ...choice(['named', 'operational', 'all'], 'operational', 'at once'),
    help: 'When `memberOf` is returned: to who names it; also to who asks for all operational attributes (`+`), as slapd does; or besides to who asks for all user attributes.',
  },

  'indexes.auto': {
    ...choice(['off', 'propose', 'make'], 'propose', 'at once'),
    help: 'What follows from searches that look at many entries in vain: nothing; proposals of indexes (`rowan index proposals`); or indexes that job `indexes` makes, and drops again when no search has used them for 30 days. The same at every front end.',
  },
  'indexes.autoMax': {
    ...integer(5, { min: 1, max: 100 }, 'next run'),
    help: 'Indexes that `indexes.auto: make` has at a time. Those that a person has added do not count.',
  },

  'replica.writes': {
    ...choice(['forward', 'refer'], 'forward'),
    help: 'What a replica does with a change: hands it on to its primary, with the rights of its client, and answers when the replica has it, too; or answers with a referral to the primary.',
  },
  'replica.acknowledge': {
    ...integer(0, { min: 0, max: 100 }),
    help: 'A primary answers a change when so many replicas have it on disk. 0: at once.',
  },
  'replica.acknowledgeMissing': {
    ...choice(['refuse', 'continue'], 'refuse', 'at once'),
    help: 'What a primary does with changes when fewer replicas than `replica.acknowledge` follow: it answers `unavailable` (52) and changes nothing; or it goes on without them, and warns in the log.',
  },
  'replica.acknowledgeSeconds': {
    ...seconds(5, { min: 1, max: 3600 }, 'at once'),
    help: 'How long a change waits for the replicas. Then the answer is `unavailable` (52), although the change is made; success with `replica.acknowledgeMissing: continue`. A replica that was too slow counts again when it has that change.',
  },
  'replica.logHours': {
    ...integer(168, { min: 1, max: 87_600 }, 'next run'),
    help: 'How long the log of changes for replicas is kept, at a primary and at a replica. A replica that was away for longer copies the directory anew.',
  },
  'replica.readyBehindSeconds': {
    ...seconds(259_200, { min: 1, max: 31_536_000, zeroIsUnlimited: true }, 'at once'),
    help: 'A replica whose data is older than that is not ready for load balancers (`/ready`).',
  },

  'history.changesDays': {
    ...days(30, { min: 0, max: 36_500 }, 'next run'),
    help: 'How long change records are kept. They are kept as long as deleted entries in any case.',
  },
  'history.deletedDays': {
    ...days(30, { min: 0, max: 36_500 }, 'next run'),
    help: 'How long deleted entries can be restored.',
  },

  'jobs.purge.schedule': {
    ...schedule('17 * * * *'),
    help: 'When deleted entries older than `history.deletedDays` are forgotten: minute, hour, day of the month, month, day of the week, in the time zone of the server; `off`: only by `rowan jobs run purge`.',
  },
  'jobs.trim.schedule': {
    ...schedule('27 * * * *'),
    help: 'When change records older than `history.changesDays` are removed, as `jobs.purge.schedule`.',
  },
  'jobs.recount.schedule': {
    ...schedule('43 3 * * 0'),
    help: 'When the counters of entries (numSubordinates) are compared with what is there, as `jobs.purge.schedule`. It reads the whole directory.',
  },
  'jobs.check.schedule': {
    ...schedule('13 4 * * *'),
    help: 'When a sample of the entries is checked, as `jobs.purge.schedule`.',
  },
  'jobs.check.entries': {
    ...integer(1000, { min: 1, max: 1_000_000 }, 'next run'),
    help: 'Entries that job `check` looks at, drawn at random.',
  },
  'jobs.certificate.schedule': {
    ...schedule('7 9 * * *'),
    help: 'When it is looked whether the certificate of `tls.cert` is about to expire, as `jobs.purge.schedule`.',
  },
  'jobs.certificate.days': {
    ...days(30, { min: 1, max: 3650 }, 'next run'),
    help: 'How long before its end job `certificate` warns of the certificate.',
  },

  'jobs.indexes.schedule': {
    ...schedule('33 2 * * *'),
    help: 'When an index is made with `indexes.auto: make`, as `jobs.purge.schedule`: one each time.',
  },

  'jobs.backup.schedule': {
    ...schedule('7 1 * * *'),
    help: 'When a backup is made in `backup.folder`, as `jobs.purge.schedule`.',
  },
  'jobs.dropfolder.schedule': {
    ...schedule('* * * * *'),
    help: 'When the files of `dropfolder.folder` are applied, as `jobs.purge.schedule`.',
  },
  'backup.folder': {
    ...path('next run'),
    help: 'Folder in which job `backup` makes a backup at each run, named for its time (docs/operations.md).',
  },
  'backup.days': {
    ...days(7, { min: 1, max: 36_500 }, 'next run'),
    help: 'How long backups in `backup.folder` are kept. The newest one stays.',
  },

  'dropfolder.folder': {
    ...path('next run'),
    help: 'Folder into which LDIF and CSV files are dropped, which job `dropfolder` applies (docs/dropfolder.md).',
  },
  'dropfolder.as': {
    ...text(/^.{1,2000}$/, 'a DN', 'next run'),
    help: 'Entry by whose rights dropped files are applied; the administrator unless given.',
  },
  'dropfolder.mapping': {
    ...path('next run'),
    help: 'YAML file that says how rows of dropped `.csv` files become entries; without it they are refused.',
  },
  'dropfolder.validateFirst': {
    ...boolean(false, 'next run'),
    help: 'Try a whole dropped file before its first record is applied, and apply none of it if one is refused.',
  },
  'dropfolder.maxBytes': {
    ...size(1024 ** 3, { min: 1024, max: 1024 ** 4 }, 'next run'),
    help: 'Longer dropped files are refused.',
  },

  'schema.folders': {
    kind: 'paths',
    default: [],
    help: "Folders of your own schema files, read after Rowan's when `rowan init` or `rowan schema set` gives them to a directory. Elsewhere they need not be given; those that are, must be the directory's.",
  },
  'schema.nis': {
    kind: 'choice',
    choices: ['rfc2307', 'rfc2307bis'],
    help: 'Which NIS schema a directory is given, as with `schema.folders`; `rfc2307` unless given. In `rfc2307bis` posixGroup is auxiliary, so that a groupOfNames can be one.',
  },

  'log.level': {
    ...choice(['fatal', 'error', 'warn', 'info', 'debug', 'trace'], 'info', 'at once'),
    help: 'Least weighty messages logged.',
  },
  'log.format': { ...choice(['pretty', 'json'], 'pretty', 'at once'), help: 'For people, or one JSON object a line.' },
  'log.slowSearchRows': {
    ...integer(5000, { min: 1, max: 2_147_483_647, zeroIsUnlimited: true }, 'at once'),
    help: 'A search that looks at so many entries in vain is logged with its plan and the index it lacks.',
  },

  'accessLog.output': {
    ...output(['off', 'stderr']),
    help: 'File to which a JSON line is appended for each operation that has ended (docs/operations.md).',
  },
  'accessLog.slowerThan': {
    ...integer(0, { min: 0, max: 3_600_000 }, 'at once'),
    help: 'Operations that succeed in fewer milliseconds are left out of the access log.',
  },
  'accessLog.sample': {
    ...integer(1, { min: 1, max: 1_000_000 }, 'at once'),
    help: 'The access log has one in so many of the operations that succeed, and all that fail.',
  },
  'accessLog.maxBytes': { ...size(100 * 1024 ** 2, ROTATION_SIZES, 'at once'), help: ROTATION_HELP.size },
  'accessLog.days': { ...days(0, ROTATION_DAYS, 'at once'), help: ROTATION_HELP.days },
  'accessLog.keep': { ...integer(10, { min: 0, max: 10_000 }, 'at once'), help: ROTATION_HELP.keep },
  'auditLog.output': {
    ...output(['off']),
    help: 'File to which each change is appended as an LDIF change record (docs/operations.md).',
  },
  'auditLog.refused': {
    ...boolean(false, 'at once'),
    help: 'The audit log also has changes that were refused, as comments with result code and reason.',
  },
  'auditLog.maxBytes': { ...size(100 * 1024 ** 2, ROTATION_SIZES, 'at once'), help: ROTATION_HELP.size },
  'auditLog.days': { ...days(0, ROTATION_DAYS, 'at once'), help: ROTATION_HELP.days },
  'auditLog.keep': { ...integer(100, { min: 0, max: 10_000 }, 'at once'), help: ROTATION_HELP.keep },

  readOnlyWhenDamaged: {
    ...boolean(true, 'at once'),
    help: 'Write nothing any more once stored data was found damaged, in all processes and after a restart, until `rowan check` finds no breach. Over HBase, which has checksums of its own, nothing is held.',
  },

  shutdownSeconds: {
    ...seconds(30, { min: 0, max: 3600 }, 'at once'),
    help: 'After SIGTERM or SIGINT, time for the requests at work; then connections are closed.',
  },
} as const satisfies Readonly<Record<string, SettingSpec>>;

export type SettingName = keyof typeof settings;
export const settingNames = Object.keys(settings) as SettingName[];

function kebab(name: string): string {
  return name
    .replaceAll('.', '-')
    .replace(/([a-z0-9])(?=[A-Z][a-z])/g, '$1-')
    .toLowerCase();
}

/** `limits.messageBytes` → `--limits-message-bytes`. */
export function settingFlag(name: SettingName): string {
  return '--' + kebab(name);
}

/** `limits.messageBytes` → `ROWAN_LIMITS_MESSAGE_BYTES`. */
export function settingVariable(name: SettingName): string {
  return 'ROWAN_' + kebab(name).replaceAll('-', '_').toUpperCase();
}
