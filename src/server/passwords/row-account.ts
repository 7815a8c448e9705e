import { generalizedTimeMs } from '../../schema/time.js';

/** What an entry itself says about its account, times in milliseconds since 1970. */
export interface RowAccount {
  /** DN of its password policy, as stored. */
  readonly policy: string | undefined;
  /** When the password was changed. */
  readonly changed: number | undefined;
  /** Milliseconds for which a password is good, whatever the policy. */
  readonly maxAge: number | undefined;
  /** The password has to be changed before anything else. */
  readonly reset: boolean;
  /** When the password begins, and when it ceases to be valid. */
  readonly start: number | undefined;
  readonly end: number | undefined;
  /** Values of pwdHistory: views into the row. */
  readonly history: readonly Buffer[];
  /** What an import has brought; a row of table `state` takes its place. */
  readonly failures: readonly number[];
  readonly graceUses: readonly number[];
  readonly lastSuccess: number | undefined;
}

type Taking = { -readonly [K in keyof RowAccount]: RowAccount[K] extends readonly (infer V)[] ? V[] : RowAccount[K] };

const TAKE: Readonly<Record<string, (into: Taking, value: Buffer) => void>> = {
  pwdpolicysubentry(into, value) {
    into.policy = value.toString();
  },
  pwdchangedtime(into, value) {
    into.changed = generalizedTimeMs(value);
  },
  pwdreset(into, value) {
    into.reset = value.toString('latin1').toUpperCase() === 'TRUE';
  },
  pwdstarttime(into, value) {
    into.start = generalizedTimeMs(value);
  },
  pwdendtime(into, value) {
    into.end = earlier(into.end, generalizedTimeMs(value));
  },
  pwdhistory(into, value) {
    into.history.push(value);
  },
  pwdfailuretime(into, value) {
    const ms = generalizedTimeMs(value);
    if (ms !== undefined) into.failures.push(ms);
  },
  pwdgraceusetime(into, value) {
    const ms = generalizedTimeMs(value);
    if (ms !== undefined) into.graceUses.push(ms);
  },
  pwdlastsuccess(into, value) {
    into.lastSuccess = generalizedTimeMs(value);
  },
};

/** Of RFC 2307, taken where the setting `passwords.shadow` says so. */
const TAKE_SHADOW: typeof TAKE = {
  shadowexpire(into, value) {
    into.end = earlier(into.end, days(value));
  },
  shadowlastchange(into, value) {
    into.changed ??= days(value);
  },
  shadowmax(into, value) {
    into.maxAge = days(value);
  },
};

/** In milliseconds; undefined: never, as the values of old say it (-1, 0, 99999 and what is later than any date). */
function days(value: Buffer): number | undefined {
  const number = Number(value.toString('latin1'));
  return number > 0 && number < 99_999 ? number * 86_400_000 : undefined;
}

function earlier(one: number | undefined, other: number | undefined): number | undefined {
  return one !== undefined && other !== undefined ? Math.min(one, other) : (one ?? other);
}

/** Whether the attribute (its name in lower case) says something about the account. */
export function isOfAccount(name: string, shadow: boolean): boolean {
  return Object.hasOwn(TAKE, name) || (shadow && Object.hasOwn(TAKE_SHADOW, name));
}

/** Of which nothing is known. */
export function emptyAccount(): RowAccount {
  return {
    policy: undefined,
    changed: undefined,
    maxAge: undefined,
    reset: false,
    start: undefined,
    end: undefined,
    history: [],
    failures: [],
    graceUses: [],
    lastSuccess: undefined,
  };
}

/** With one more value of an attribute for which `isOfAccount` is true. */
export function withValue(account: RowAccount | undefined, name: string, value: Buffer): RowAccount {
  const into = (account ?? emptyAccount()) as Taking;
  (TAKE[name] ?? TAKE_SHADOW[name])!(into, value);
  return into;
}
