/** Why a call failed, and how to react. Most failures are handled by retries; the rest become a `StoreError`. */
export interface FailureTraits {
  /** The server has not applied anything. */
  readonly notApplied?: boolean;
  /** The region is no longer at this server. */
  readonly moved?: boolean;
  /** The server is gone or unreachable: all regions there must be looked up again. */
  readonly serverGone?: boolean;
  /** The connection was closed before the server had sent any bytes. */
  readonly neverAnswered?: boolean;
  /** The server is overloaded and needs a longer pause and fewer concurrent calls. */
  readonly overloaded?: boolean;
  /** The scanner is lost. The scan continues with a new one. */
  readonly scannerLost?: boolean;
  /** The answer had no space left: the rest may be requested without a pause. */
  readonly retryAtOnce?: boolean;
  /** A retry would give the same result. */
  readonly final?: boolean;
}

export class Failure extends Error {
  override readonly name = 'Failure';
  readonly traits: FailureTraits;
  /** Simple name of the Java exception class, if a server sent one. */
  readonly exception: string | undefined;

  constructor(message: string, traits: FailureTraits = {}, options: { exception?: string; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.traits = traits;
    this.exception = options.exception;
  }

  /** Returns the failure of a look-up that precedes the operation, which was not sent. `advice` is appended. */
  static ofLookup(what: string, cause: Failure, advice = ''): Failure {
    const traits = { undone: true, final: cause.traits.final === true };
    const options = cause.exception === undefined ? { cause } : { cause, exception: cause.exception };
    return new Failure(`${what}: ${cause.message}${advice}`, traits, options);
  }
}

/** The server's address cannot be reached. */
export const UNREACHABLE: FailureTraits = { notApplied: true, serverGone: true, moved: true };

const REGION_MOVED: FailureTraits = { notApplied: true, moved: true };
const BUSY: FailureTraits = { notApplied: true, overloaded: true };
const NOT_READY: FailureTraits = { notApplied: true };
export const REFUSED: FailureTraits = { notApplied: true, final: true };
const SCANNER_LOST: FailureTraits = { scannerLost: true };

/** By the simple name of the exception class, whatever its package or enclosing class. */
const TRAITS: Readonly<Record<string, FailureTraits>> = {
  NotServingRegionException: REGION_MOVED,
  RegionMovedException: REGION_MOVED,
  RegionOfflineException: REGION_MOVED,
  WrongRegionException: REGION_MOVED,
  RegionServerStoppedException: { notApplied: true, moved: true, serverGone: true },
  RegionServerAbortedException: { moved: true, serverGone: true },
  RegionOpeningException: NOT_READY,
  ServerNotRunningYetException: NOT_READY,
  PleaseHoldException: NOT_READY,
  MasterNotRunningException: NOT_READY,
  NotAllMetaRegionsOnlineException: NOT_READY,
  MultiActionResultTooLarge: { notApplied: true, retryAtOnce: true },
  RegionTooBusyException: BUSY,
  CallQueueTooBigException: BUSY,
  CallDroppedException: BUSY,
  RpcThrottlingException: BUSY,
  UnknownScannerException: SCANNER_LOST,
  OutOfOrderScannerNextException: SCANNER_LOST,
  ScannerResetException: SCANNER_LOST,
  LeaseException: SCANNER_LOST,
  TableNotFoundException: REFUSED,
  TableNotEnabledException: REFUSED,
  NoSuchColumnFamilyException: REFUSED,
  AccessDeniedException: REFUSED,
  FailedSanityCheckException: REFUSED,
  RequestTooBigException: REFUSED,
  UnknownProtocolException: REFUSED,
  UnsupportedCellCodecException: REFUSED,
  FatalConnectionException: REFUSED,
  WrongVersionException: REFUSED,
  BadAuthException: REFUSED,
  RowTooBigException: REFUSED,
};

/** Message of HBase for an increment of a cell without 8 bytes. Its exception class has other meanings as well. */
const NOT_A_COUNTER = /Field is not a long/;

/** Returns the failure that an exception sent by `server` stands for. */
export function failureOf(
  server: string,
  exception: string,
  trace: string,
  flags: Pick<FailureTraits, 'final' | 'overloaded'> = {},
): Failure {
  const simple = exception.slice(Math.max(exception.lastIndexOf('.'), exception.lastIndexOf('$')) + 1);
  const traits = TRAITS[simple];
  const line = trace.split('\n', 1)[0]!.slice(0, 300);
  const message = line.startsWith(exception) ? line.slice(exception.length).replace(/^:? */, '') : line;
  if (NOT_A_COUNTER.test(message)) return new Failure(`${server}: ${message}`, REFUSED, { exception: 'NotACounter' });
  // The server's "do not retry" flag is used only for exceptions that the table does not contain.
  const final = traits ? traits.final === true : flags.final === true;
  const overloaded = traits?.overloaded === true || flags.overloaded === true;
  const text = `${server}: ${simple}${message && `: ${message}`}`;
  return new Failure(text, { ...traits, final, overloaded }, { exception: simple });
}
