import { randomBytes } from 'node:crypto';
import type { Logger } from 'pino';
import { LdapError } from '../../ldap/error.js';
import { type Outcome, outcome, outcomeOf } from '../outcome.js';

/**
 * What the client is told of an operation that threw. An LdapError speaks for itself; anything else is a fault of ours: it is
 * logged with its stack under an incident id, and the client learns the id alone.
 */
export function failureOutcome(error: unknown, log: Logger): Outcome {
  if (error instanceof LdapError) return outcomeOf(error);
  const incident = randomBytes(6).toString('hex');
  log.error({ incident, err: error }, 'unexpected error');
  return outcome('other', `internal error; incident ${incident} in the server's log`);
}
