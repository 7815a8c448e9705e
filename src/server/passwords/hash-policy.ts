import type { Logger } from 'pino';
import { BoundedMap } from '../../cache/bounded-map.js';
import { CredentialCache, DEFAULT_ARGON2_COST, type PasswordPolicy, PasswordVerifier } from '../../password/index.js';
import type { Config } from '../settings/index.js';

/** Returns the scheme and the costs of password hashes that the settings `passwords` ask for. */
export function hashPolicyOf({ passwords }: Config): PasswordPolicy {
  return { scheme: passwords.scheme, argon2: passwords.argon2, maxCost: passwords.maxCost * DEFAULT_ARGON2_COST };
}

const MAX_WARNED_STATES = 1000;

/**
 * Returns the verifier of binds. Logs one warning for each state of an entry with passwords that cost too much to
 * verify. The warning contains neither passwords nor names.
 */
export function createBindVerifier(config: Config, log: Logger): PasswordVerifier {
  const { enabled, seconds, entries } = config.credentialCache;
  const cache = enabled ? new CredentialCache({ seconds, entries }) : undefined;
  const warnedKeys = new BoundedMap<string, true>(MAX_WARNED_STATES, 'oldest');
  return new PasswordVerifier(hashPolicyOf(config), cache, (state) => {
    const key = state.toString('latin1');
    if (warnedKeys.get(key)) return;
    warnedKeys.set(key, true);
    log.warn(
      { entry: state.toString('hex', 0, 16) },
      'a bind left out passwords of its entry that cost too much (passwords.maxCost); rowan check names them',
    );
  });
}
