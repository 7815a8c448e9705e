/**
 * Why a call failed, and what may be done about it. A class of its own because most failures are mended here: only what
 * cannot be becomes a `StoreError`.
 */
export interface FailureTraits {
  /** The server is known not to have done anything. */
  readonly undone?: boolean;
  /** The region is not where it was thought to be. */
  readonly moved?: boolean;
  /** The server (or the way to it) is gone: everything thought to be there must be looked up. */
  readonly serverGone?: boolean;
  /** The connection was closed before the server had said anything on it. */
  readonly mute?: boolean;
  /** Too much for the server: it wants a longer pause and fewer calls at once. */
  readonly overloaded?: boolean;
  /** The scanner is lost; the scan goes on with a new one. */
  readonly scannerLost?: boolean;
  /** More would not have fitted into the answer: the rest may be asked for without a pause. */
  readonly atOnce?: boolean;
  /** Trying again gives the same answer. */
  readonly final?: boolean;
}

export class Failure extends Error {
  override readonly name = 'Failure';
  readonly traits: FailureTraits;
  /** Java class of the exception, where a server sent one. */
  readonly exception: string | undefined;

  constructor(message: string, traits: FailureTraits = {}, options: { exception?: string; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.traits = traits;
    this.exception = options.exception;
  }

  /**
   * The same failure of a question that had to be asked before: nothing of what was wanted was done. `advice` follows
   * its message.
   */
  static before(what: string, cause: Failure, advice = ''): Failure {
    const traits = { undone: true, final: cause.traits.final === true };
    const options = cause.exception === undefined ? { cause } : { cause, exception: cause.exception };
    return new Failure(`${what}: ${cause.message}${advice}`, traits, options);
  }
}

/** Nobody can be reached at the server's address. */
export const UNREACHED: FailureTraits = { undone: true, serverGone: true, moved: true };

const ELSEWHERE: FailureTraits = { undone: true, moved: true };
const BUSY: FailureTraits = { undone: true, overloaded: true };
const NOT_YET: FailureTraits = { undone: true };
const REFUSED: FailureTraits = { undone: true, final: true };
const SCANNER: FailureTraits = { scannerLost: true };

/** By the exception's simple name: a nested class or another package does not change what it means. */
const TRAITS: Readonly<Record<string, FailureTraits>> = {
  NotServingRegionException: ELSEWHERE,
  RegionMovedException: ELSEWHERE,
  RegionOfflineException: ELSEWHERE,
  WrongRegionException: ELSEWHERE,
  RegionServerStoppedException: { undone: true, moved: true, serverGone: true },
  RegionServerAbortedException: { moved: true, serverGone: true },
  RegionOpeningException: NOT_YET,
  ServerNotRunningYetException: NOT_YET,
  PleaseHoldException: NOT_YET,
  MasterNotRunningException: NOT_YET,
  NotAllMetaRegionsOnlineException: NOT_YET,
  MultiActionResultTooLarge: { undone: true, atOnce: true },
  RegionTooBusyException: BUSY,
  CallQueueTooBigException: BUSY,
  CallDroppedException: BUSY,
  RpcThrottlingException: BUSY,
  UnknownScannerException: SCANNER,
  OutOfOrderScannerNextException: SCANNER,
  ScannerResetException: SCANNER,
  LeaseException: SCANNER,
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

/** What HBase says to an Increment of a cell that is not 8 bytes; the exception's class is that of many others. */
const NOT_A_COUNTER = /Field is not a long/;

/** The failure that an exception sent by `server` stands for. */
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
  // A server's "do not retry" is believed only of what the table does not know.
  const final = traits ? traits.final === true : flags.final === true;
  const overloaded = traits?.overloaded === true || flags.overloaded === true;
  const text = `${server}: ${simple}${message && `: ${message}`}`;
  return new Failure(text, { ...traits, final, overloaded }, { exception: simple });
}
