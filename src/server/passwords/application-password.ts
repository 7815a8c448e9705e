import { randomBytes, randomInt } from 'node:crypto';
import { inNetworks } from '../../access/asker.js';
import { parseNetwork } from '../../access/parse-network.js';
import type { Network } from '../../access/rule.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { PasswordUse } from '../../partition/model/account-state.js';
import { hashPasswordFast, verifyPassword } from '../../password/index.js';

/** Holds them, one value each. */
export const APPLICATION_PASSWORD = 'rowanAppPassword';
/** Of one entry: each is compared in a bind that fails. */
export const MOST_APPLICATION_PASSWORDS = 16;

const MOST_NETWORKS = 16;
const MOST_DN = 2000;
const NAME = /^[^\p{C}\p{Z}](?:[^\p{C}]{0,62}[^\p{C}\p{Z}])?$/u;
const HOUR = 3_600_000;

/** What may be said of one when it is made. */
export interface ApplicationLimits {
  readonly name: string;
  /** Where clients have to be; none: anywhere. */
  readonly networks: readonly Network[];
  /** DN of who the connection has to be bound as before; undefined: anybody. */
  readonly usedBy: string | undefined;
  /** Milliseconds since 1970. */
  readonly expires: number | undefined;
}

/** A password of an application's own. */
export interface ApplicationPassword extends ApplicationLimits {
  /** 16 hex digits. */
  readonly id: string;
  readonly created: number;
  readonly hash: Buffer;
  /** The stored value. */
  readonly value: Buffer;
}

/** Letters and digits that are not mistaken for each other, 32 of them: 24 are 120 random bits. */
const LETTERS = 'abcdefghijkmnpqrstuvwxyz23456789';
const FORM = /^[a-km-np-z2-9]{6}(?:-[a-km-np-z2-9]{6}){3}$/;

/** Networks as people write them. Throws LdapError `constraintViolation`. */
export function networksOf(texts: readonly string[]): Network[] {
  if (texts.length > MOST_NETWORKS)
    throw new LdapError('constraintViolation', `an application password has ${MOST_NETWORKS} networks at most`);
  return texts.map((text) => {
    const network = parseNetwork(text);
    if (typeof network === 'string') throw new LdapError('constraintViolation', network);
    return network;
  });
}

/** A new one beside those that the entry has: what is stored, and what is shown once. Throws LdapError. */
export function newApplicationPassword(
  limits: ApplicationLimits,
  present: readonly ApplicationPassword[],
  now: number,
): { readonly value: Buffer; readonly clear: string } {
  const { name, networks, usedBy, expires } = limits;
  if (!NAME.test(name))
    throw new LdapError(
      'constraintViolation',
      'the name of an application password has 1 to 64 characters, none of them a control character, and no space at its ends',
    );
  if (present.some((other) => other.name === name))
    throw new LdapError('attributeOrValueExists', `there is an application password '${name}'; remove it first`);
  if (present.length >= MOST_APPLICATION_PASSWORDS)
    throw new LdapError(
      'constraintViolation',
      `an entry has ${MOST_APPLICATION_PASSWORDS} application passwords at most`,
    );
  if (usedBy !== undefined && Buffer.byteLength(usedBy) > MOST_DN)
    throw new LdapError('constraintViolation', `the DN of who uses it has ${MOST_DN} bytes at most`);
  if (expires !== undefined && !(expires > now))
    throw new LdapError('constraintViolation', 'the application password would have expired already');
  const letters = Array.from({ length: 24 }, () => LETTERS[randomInt(LETTERS.length)]!).join('');
  const clear = letters.match(/.{6}/g)!.join('-');
  const stored: Stored = {
    id: randomBytes(8).toString('hex'),
    name,
    created: now,
    hash: hashPasswordFast(Buffer.from(clear)).toString('latin1'),
    ...(expires === undefined ? {} : { expires }),
    ...(networks.length === 0 ? {} : { networks: networks.map(({ text }) => text) }),
    ...(usedBy === undefined ? {} : { usedBy }),
  };
  return { value: Buffer.from(JSON.stringify(stored)), clear };
}

/** The stored form, JSON. */
interface Stored {
  readonly id: string;
  readonly name: string;
  readonly created: number;
  readonly hash: string;
  readonly expires?: number;
  readonly networks?: readonly string[];
  readonly usedBy?: string;
}

/** Those of an entry. A value that is none gives none: nobody binds with it. */
export function applicationPasswordsOf(values: readonly Buffer[]): ApplicationPassword[] {
  return values.flatMap((value) => parse(value) ?? []);
}

function parse(value: Buffer): ApplicationPassword | undefined {
  try {
    const { id, name, created, hash, expires, networks = [], usedBy } = JSON.parse(value.toString()) as Stored;
    const isSound =
      /^[0-9a-f]{16}$/.test(id) &&
      NAME.test(name) &&
      Number.isSafeInteger(created) &&
      typeof hash === 'string' &&
      (expires === undefined || Number.isSafeInteger(expires)) &&
      (usedBy === undefined || typeof usedBy === 'string');
    if (!isSound) return undefined;
    return {
      id,
      name,
      created,
      hash: Buffer.from(hash, 'latin1'),
      expires,
      networks: networksOf(networks),
      usedBy,
      value,
    };
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof TypeError || error instanceof LdapError) return undefined;
    throw error;
  }
}

/** That of the values which the password is, whatever its limits. Text of another form is none, and is not compared. */
export function matchingApplication(values: readonly Buffer[], clear: Buffer): ApplicationPassword | undefined {
  if (values.length === 0 || !FORM.test(clear.toString('latin1'))) return undefined;
  return applicationPasswordsOf(values).find(({ hash }) => verifyPassword(hash, clear) === true);
}

/** Whether it is good now, for a client with this address. */
export function isGoodFor(
  { expires, networks }: ApplicationPassword,
  address: string | undefined,
  now: number,
): boolean {
  if (expires !== undefined && now >= expires) return false;
  return networks.length === 0 || inNetworks(address, networks);
}

/** The uses as they shall be when one is used; undefined: as they are. */
export function usesAfter(
  uses: readonly PasswordUse[],
  id: string,
  present: readonly Buffer[],
  now: number,
): readonly PasswordUse[] | undefined {
  const last = uses.find((use) => use.id === id);
  if (last && now - last.time < HOUR) return undefined;
  const known = new Set(applicationPasswordsOf(present).map((one) => one.id));
  return [...uses.filter((use) => use.id !== id && known.has(use.id)), { id, time: now }];
}
