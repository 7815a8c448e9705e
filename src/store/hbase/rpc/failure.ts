/**
 * The reason why a call failed, and the reaction to it. Most failures are handled by retries; the rest become a
 * `StoreError`.
 */
export interface FailureTraits {
  /** The server has not applied anything. */
  readonly isNotApplied?: boolean;
  /** The region is no longer at this server. */
  readonly isRegionMoved?: boolean;
  /** The server is gone or unreachable: all regions there must be looked up again. */
  readonly isServerGone?: boolean;
  /** The connection was closed before the server had sent any bytes. */
  readonly isNeverAnswered?: boolean;
  /** The server is overloaded and needs a longer pause and fewer concurrent calls. */
  readonly isOverload?: boolean;
  /** The scanner is lost. The scan continues with a new one. */
  readonly isScannerLost?: boolean;
  /** The answer had no space left: the rest may be requested without a pause. */
  readonly canRetryAtOnce?: boolean;
  /** A retry would give the same result. */
  readonly isFinal?: boolean;
}

export class Failure extends Error {
  override readonly name = 'Failure';
  readonly traits: FailureTraits;
  /** Simple name of the Java exception class, if a server sent one. */
  readonly exceptionName: string | undefined;

  constructor(message: string, traits: FailureTraits = {}, options: { exception?: string; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.traits = traits;
    this.exceptionName = options.exception;
  }

  /** Returns the failure of a look-up that precedes the operation, which was not sent. `advice` is appended. */
  static ofLookup(target: string, cause: Failure, advice = ''): Failure {
    const traits = { isNotApplied: true, isFinal: cause.traits.isFinal === true };
    const options = cause.exceptionName === undefined ? { cause } : { cause, exception: cause.exceptionName };
    return new Failure(`${target}: ${cause.message}${advice}`, traits, options);
  }
}

/** The server's address cannot be reached. */
export const SERVER_UNREACHABLE: FailureTraits = { isNotApplied: true, isServerGone: true, isRegionMoved: true };

const REGION_MOVED: FailureTraits = { isNotApplied: true, isRegionMoved: true };
const SERVER_BUSY: FailureTraits = { isNotApplied: true, isOverload: true };
const SERVER_NOT_READY: FailureTraits = { isNotApplied: true };
export const REQUEST_REFUSED: FailureTraits = { isNotApplied: true, isFinal: true };
const SCANNER_LOST: FailureTraits = { isScannerLost: true };

/** By the simple name of the exception class, whatever its package or enclosing class. */
const TRAITS_BY_EXCEPTION: Readonly<Record<string, FailureTraits>> = {
  NotServingRegionException: REGION_MOVED,
  RegionMovedException: REGION_MOVED,
  RegionOfflineException: REGION_MOVED,
  WrongRegionException: REGION_MOVED,
  RegionServerStoppedException: { isNotApplied: true, isRegionMoved: true, isServerGone: true },
  RegionServerAbortedException: { isRegionMoved: true, isServerGone: true },
  RegionOpeningException: SERVER_NOT_READY,
  ServerNotRunningYetException: SERVER_NOT_READY,
  PleaseHoldException: SERVER_NOT_READY,
  MasterNotRunningException: SERVER_NOT_READY,
  NotAllMetaRegionsOnlineException: SERVER_NOT_READY,
  MultiActionResultTooLarge: { isNotApplied: true, canRetryAtOnce: true },
  RegionTooBusyException: SERVER_BUSY,
  CallQueueTooBigException: SERVER_BUSY,
  CallDroppedException: SERVER_BUSY,
  RpcThrottlingException: SERVER_BUSY,
  UnknownScannerException: SCANNER_LOST,
  OutOfOrderScannerNextException: SCANNER_LOST,
  ScannerResetException: SCANNER_LOST,
  LeaseException: SCANNER_LOST,
  TableNotFoundException: REQUEST_REFUSED,
  TableNotEnabledException: REQUEST_REFUSED,
  NoSuchColumnFamilyException: REQUEST_REFUSED,
  AccessDeniedException: REQUEST_REFUSED,
  FailedSanityCheckException: REQUEST_REFUSED,
  RequestTooBigException: REQUEST_REFUSED,
  UnknownProtocolException: REQUEST_REFUSED,
  UnsupportedCellCodecException: REQUEST_REFUSED,
  FatalConnectionException: REQUEST_REFUSED,
  WrongVersionException: REQUEST_REFUSED,
  BadAuthException: REQUEST_REFUSED,
  RowTooBigException: REQUEST_REFUSED,
};

/** Message of HBase for an increment of a cell without 8 bytes. Its exception class has other meanings as well. */
const NOT_A_COUNTER = /Field is not a long/;

/** Returns the failure that an exception sent by `server` stands for. */
export function failureOfException(
  server: string,
  exception: string,
  trace: string,
  flags: Pick<FailureTraits, 'isFinal' | 'isOverload'> = {},
): Failure {
  const simpleName = exception.slice(Math.max(exception.lastIndexOf('.'), exception.lastIndexOf('$')) + 1);
  const traits = TRAITS_BY_EXCEPTION[simpleName];
  const firstLine = trace.split('\n', 1)[0]!.slice(0, 300);
  const message = firstLine.startsWith(exception) ? firstLine.slice(exception.length).replace(/^:? */, '') : firstLine;
  if (NOT_A_COUNTER.test(message))
    return new Failure(`${server}: ${message}`, REQUEST_REFUSED, { exception: 'NotACounter' });
  // The server's "do not retry" flag is used only for exceptions that the table does not contain.
  const isFinal = traits ? traits.isFinal === true : flags.isFinal === true;
  const isOverload = traits?.isOverload === true || flags.isOverload === true;
  const failureMessage = `${server}: ${simpleName}${message && `: ${message}`}`;
  return new Failure(failureMessage, { ...traits, isFinal, isOverload }, { exception: simpleName });
}
