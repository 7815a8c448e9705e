import { generalizedTimeMs } from '../../schema/time.js';

/** Account attributes in the row of an entry. Times are in milliseconds since 1970. */
export type RowAccount = Readonly<MutableAccount>;

type MutableAccount = ReturnType<typeof emptyAccount>;

export function emptyAccount() {
  return {
    /** DN of the password policy, as stored. */
    policy: undefined as string | undefined,
    changed: undefined as number | undefined,
    /** Maximum age of the password in milliseconds, in addition to the policy. */
    maxAge: undefined as number | undefined,
    /** Whether the password must be changed before other operations. */
    reset: false,
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

/** Readers of RFC 2307 attributes, used with the setting `passwords.shadow`. */
const SHADOW_READERS: typeof READERS = {
  shadowexpire: setEnd(daysToMs),
  shadowlastchange(account, value) {
    account.changed ??= daysToMs(value);
  },
  shadowmax: setField('maxAge', daysToMs),
};

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

/** Converts days to milliseconds; undefined for values that mean never: -1, 0, 99999 and more. */
function daysToMs(value: Buffer): number | undefined {
  const dayCount = Number(value.toString('latin1'));
  return dayCount > 0 && dayCount < 99_999 ? dayCount * 86_400_000 : undefined;
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
