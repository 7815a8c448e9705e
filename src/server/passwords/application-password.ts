import { randomBytes, randomInt } from 'node:crypto';
import { parseNetwork } from '../../access/parse-clauses.js';
import { inNetworks } from '../../access/requester.js';
import type { Network } from '../../access/rule.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { PasswordUse } from '../../partition/model/account-state.js';
import { hashPasswordFast, verifyPassword } from '../../password/index.js';

/** The attribute of application passwords. Each value is one password. */
export const APPLICATION_PASSWORD = 'rowanAppPassword';
/** Most application passwords of one entry. A failing bind compares each of them. */
export const MAX_APPLICATION_PASSWORDS = 16;

const MAX_NETWORKS = 16;
const MAX_DN_BYTES = 2000;
const NAME_PATTERN = /^[^\p{C}\p{Z}](?:[^\p{C}]{0,62}[^\p{C}\p{Z}])?$/u;
const HOUR_MS = 3_600_000;

/** Name and restrictions of an application password. */
export interface ApplicationLimits {
  readonly name: string;
  /** Networks that clients must connect from; empty: any network. */
  readonly networks: readonly Network[];
  /** DN that the connection must have been bound as before; undefined: any DN. */
  readonly usedBy: string | undefined;
  /** Time of expiry, in milliseconds since 1970. */
  readonly expires: number | undefined;
}

export interface ApplicationPassword extends ApplicationLimits {
  /** 16 hex digits. */
  readonly id: string;
  readonly created: number;
  readonly hash: Buffer;
  readonly value: Buffer;
}

/** 32 letters and digits that look different from each other. A password of 24 has 120 random bits. */
const LETTERS = 'abcdefghijkmnpqrstuvwxyz23456789';
const PASSWORD_PATTERN = /^[a-km-np-z2-9]{24}$/;

/** Returns the text that is hashed: four groups of six letters, separated by hyphens. */
function inGroups(letters: string): string {
  return letters.match(/.{6}/g)!.join('-');
}

/** Parses networks. Throws `LdapError` with `constraintViolation`. */
export function parseNetworks(texts: readonly string[]): Network[] {
  if (texts.length > MAX_NETWORKS)
    throw new LdapError('constraintViolation', `an application password has ${MAX_NETWORKS} networks at most`);
  return texts.map((text) => {
    const network = parseNetwork(text);
    if (typeof network === 'string') throw new LdapError('constraintViolation', network);
    return network;
  });
}

/** Creates an application password: the value to store, and the clear password to show once. Throws `LdapError`. */
export function createApplicationPassword(
  limits: ApplicationLimits,
  present: readonly ApplicationPassword[],
  now: number,
): { readonly value: Buffer; readonly clearPassword: string } {
  const { name, networks, usedBy, expires } = limits;
  if (!NAME_PATTERN.test(name))
    throw new LdapError(
      'constraintViolation',
      'the name of an application password has 1 to 64 characters, none of them a control character, and no space at its ends',
    );
  if (present.some((other) => other.name === name))
    throw new LdapError('attributeOrValueExists', `there is an application password '${name}'; remove it first`);
  if (present.length >= MAX_APPLICATION_PASSWORDS)
    throw new LdapError(
      'constraintViolation',
      `an entry has ${MAX_APPLICATION_PASSWORDS} application passwords at most`,
    );
  if (usedBy !== undefined && Buffer.byteLength(usedBy) > MAX_DN_BYTES)
    throw new LdapError('constraintViolation', `the DN of who uses it has ${MAX_DN_BYTES} bytes at most`);
  if (expires !== undefined && !(expires > now))
    throw new LdapError('constraintViolation', 'the application password would have expired already');
  const letters = Array.from({ length: 24 }, () => LETTERS[randomInt(LETTERS.length)]!).join('');
  const clearPassword = inGroups(letters);
  const storedPassword: StoredPassword = {
    id: randomBytes(8).toString('hex'),
    name,
    created: now,
    hash: hashPasswordFast(Buffer.from(clearPassword)).toString('latin1'),
    ...(expires === undefined ? {} : { expires }),
    ...(networks.length === 0 ? {} : { networks: networks.map(({ text }) => text) }),
    ...(usedBy === undefined ? {} : { usedBy }),
  };
  return { value: Buffer.from(JSON.stringify(storedPassword)), clearPassword };
}

interface StoredPassword {
  readonly id: string;
  readonly name: string;
  readonly created: number;
  readonly hash: string;
  readonly expires?: number;
  readonly networks?: readonly string[];
  readonly usedBy?: string;
}

/** Parses the stored values of an entry. Malformed values are left out. */
export function parseApplicationPasswords(values: readonly Buffer[]): ApplicationPassword[] {
  return values.flatMap((value) => parseApplicationPassword(value) ?? []);
}

function parseApplicationPassword(value: Buffer): ApplicationPassword | undefined {
  try {
    const { id, name, created, hash, expires, networks = [], usedBy } = JSON.parse(value.toString()) as StoredPassword;
    const isWellFormed =
      /^[0-9a-f]{16}$/.test(id) &&
      NAME_PATTERN.test(name) &&
      Number.isSafeInteger(created) &&
      typeof hash === 'string' &&
      (expires === undefined || Number.isSafeInteger(expires)) &&
      (usedBy === undefined || typeof usedBy === 'string');
    if (!isWellFormed) return undefined;
    return {
      id,
      name,
      created,
      hash: Buffer.from(hash, 'latin1'),
      expires,
      networks: parseNetworks(networks),
      usedBy,
      value,
    };
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof TypeError || error instanceof LdapError) return undefined;
    throw error;
  }
}

/**
 * Returns the application password that `clearPassword` matches, regardless of its restrictions. Hyphens and the case
 * of letters do not matter.
 */
export function matchingApplication(values: readonly Buffer[], clearPassword: Buffer): ApplicationPassword | undefined {
  if (values.length === 0) return undefined;
  const letters = clearPassword.toString('latin1').replaceAll('-', '').toLowerCase();
  if (!PASSWORD_PATTERN.test(letters)) return undefined;
  const hashedText = Buffer.from(inGroups(letters));
  return parseApplicationPasswords(values).find(({ hash }) => verifyPassword(hash, hashedText) === true);
}

/** Whether the password may be used now by a client with this address. */
export function isUsable(
  { expires, networks }: ApplicationPassword,
  address: string | undefined,
  now: number,
): boolean {
  if (expires !== undefined && now >= expires) return false;
  return networks.length === 0 || inNetworks(address, networks);
}

/** Returns the list of last uses after a use of the password `id`; undefined: unchanged. */
export function usesAfter(
  uses: readonly PasswordUse[],
  id: string,
  present: readonly Buffer[],
  now: number,
): readonly PasswordUse[] | undefined {
  const lastUse = uses.find((use) => use.id === id);
  if (lastUse && now - lastUse.time < HOUR_MS) return undefined;
  const existingIds = new Set(parseApplicationPasswords(present).map((one) => one.id));
  return [...uses.filter((use) => use.id !== id && existingIds.has(use.id)), { id, time: now }];
}
