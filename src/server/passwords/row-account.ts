import { generalizedTimeMs } from '../../schema/time.js';

const DAY_MS = 86_400_000;
const NEVER = Number.POSITIVE_INFINITY;

/** Account attributes in the row of an entry. Times are in milliseconds since 1970. */
export type RowAccount = Readonly<MutableAccount>;

type MutableAccount = ReturnType<typeof emptyAccount>;

export function emptyAccount() {
  return {
    /** DN of the password policy, as stored. */
    policy: undefined as string | undefined,
    changed: undefined as number | undefined,
    /** Whether the password was reset and must be changed before other operations. */
    reset: false,
    /** Whether a change of the password also changes shadowLastChange. */
    hasShadow: false,
    /** Attributes of shadow(5) in milliseconds; undefined: absent, or never. */
    shadow: {} as { [Name in 'lastChange' | 'max' | 'min' | 'warning' | 'inactive']?: number | undefined },
    /** By shadowMax: when the password must be changed. By shadowWarning: from when binds are warned of that. */
    shadowExpiry: NEVER,
    shadowWarning: NEVER,
    /** By shadowMin: from when users may change the password. */
    shadowMinEnd: -NEVER,
    /** Start and end of the time in which the account may be used. */
    start: undefined as number | undefined,
    end: undefined as number | undefined,
    /** Values of pwdHistory: views into the row. */
    history: [] as Buffer[],
    /** State from an import. A row of the table `state` takes precedence. */
    failures: [] as number[],
    graceUses: [] as number[],
    lastSuccess: undefined as number | undefined,
  };
}

type AttributeReader = (account: MutableAccount, value: Buffer) => void;

const READERS: Readonly<Record<string, AttributeReader>> = {
  pwdpolicysubentry: setField('policy', (value) => value.toString()),
  pwdchangedtime: setField('changed', generalizedTimeMs),
  pwdreset: setField('reset', (value) => value.toString('latin1').toUpperCase() === 'TRUE'),
  pwdstarttime: setField('start', generalizedTimeMs),
  pwdendtime: setEnd(generalizedTimeMs),
  pwdhistory: (account, value) => void account.history.push(value),
  pwdfailuretime: addTime('failures'),
  pwdgraceusetime: addTime('graceUses'),
  pwdlastsuccess: setField('lastSuccess', generalizedTimeMs),
};

/** Readers of RFC 2307 attributes, used with the setting `passwords.shadow`. `withShadow` counts what they read. */
const SHADOW_READERS: typeof READERS = {
  objectclass(account, value) {
    account.hasShadow ||= /^(shadowAccount|1\.3\.6\.1\.1\.1\.2\.1)$/i.test(value.toString('latin1'));
  },
  shadowexpire: setEnd((value) => daysToMs(value) || undefined),
  shadowinactive: setShadow('inactive'),
  shadowlastchange: setShadow('lastChange'),
  shadowmax: setShadow('max'),
  shadowmin: setShadow('min'),
  shadowwarning: setShadow('warning'),
};

function setShadow(name: keyof MutableAccount['shadow']): AttributeReader {
  return (account, value) => {
    account.shadow[name] = daysToMs(value);
    account.hasShadow ||= name === 'lastChange';
  };
}

/**
 * Returns the account with what the attributes of shadow(5) say together. As there whole days count, the last one
 * included. Called once, when all values have been added: a row has its attributes in any order.
 */
export function withShadow(account: RowAccount): RowAccount {
  const { lastChange, max = NEVER, min = -NEVER, warning = -NEVER, inactive = NEVER } = account.shadow;
  const changed = account.changed ?? (lastChange || undefined);
  const changeDay = changed === undefined ? NEVER : Math.floor(changed / DAY_MS) * DAY_MS;
  const shadowExpiry = changeDay + max + DAY_MS;
  const shadowEnd = shadowExpiry + inactive;
  return {
    ...account,
    changed,
    reset: account.reset || lastChange === 0,
    shadowExpiry,
    shadowWarning: shadowExpiry - warning,
    shadowMinEnd: changed !== undefined && min > 0 ? changeDay + min : -NEVER,
    end: shadowEnd < (account.end ?? NEVER) ? shadowEnd : account.end,
  };
}

/** Whether the password must be changed before other operations, at `now`. */
export function mustChange(account: RowAccount | undefined, now: number): boolean {
  return account !== undefined && (account.reset || now >= account.shadowExpiry);
}

function setField<Field extends keyof MutableAccount>(
  field: Field,
  parse: (value: Buffer) => MutableAccount[Field],
): AttributeReader {
  return (account, value) => {
    account[field] = parse(value);
  };
}

function addTime(field: 'failures' | 'graceUses'): AttributeReader {
  return (account, value) => {
    const ms = generalizedTimeMs(value);
    if (ms !== undefined) account[field].push(ms);
  };
}

/** Several attributes end an account: the earliest time applies. */
function setEnd(parse: (value: Buffer) => number | undefined): AttributeReader {
  return (account, value) => {
    const end = parse(value);
    if (end !== undefined) account.end = Math.min(account.end ?? end, end);
  };
}

/** Returns the seconds until the password must be changed by shadowMax, when shadowWarning wants a warning. */
export function warningSeconds(account: RowAccount | undefined, now: number): number | undefined {
  return account && now >= account.shadowWarning ? Math.ceil((account.shadowExpiry - now) / 1000) : undefined;
}

/** Converts days to milliseconds; undefined for values that mean never: negative ones, 99999 and more. */
function daysToMs(value: Buffer): number | undefined {
  const dayCount = Number(value.toString('latin1'));
  return dayCount >= 0 && dayCount < 99_999 ? dayCount * DAY_MS : undefined;
}

/** Whether an attribute belongs to the account. `name`: name in lower case. */
export function isAccountAttribute(name: string, shadow: boolean): boolean {
  return Object.hasOwn(READERS, name) || (shadow && Object.hasOwn(SHADOW_READERS, name));
}

/** Adds a value of an attribute for which `isAccountAttribute` is true. Returns `account`, or a new account. */
export function addValue(account: RowAccount | undefined, name: string, value: Buffer): RowAccount {
  const target = (account ?? emptyAccount()) as MutableAccount;
  (READERS[name] ?? SHADOW_READERS[name])!(target, value);
  return target;
}
