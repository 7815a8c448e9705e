import { randomBytes } from 'node:crypto';
import { LdapError } from '../../ldap/ldap-error.js';
import { damageOf } from '../../partition/index.js';
import { SlowWorkAbandoned, SlowWorkFull } from '../../password/index.js';
import type { Services } from '../services/services.js';
import { errorOutcome, type Outcome, outcome } from '../words/outcome.js';

type FailureServices = Pick<Services, 'log' | 'partition' | 'config'>;

/**
 * Returns the outcome of an operation that threw `error`. An `LdapError` is sent to the client as it is. Any other
 * error is a fault of the server: the error is logged with its stack and an incident id, and the client gets only the
 * id. Damaged stored data is treated likewise, and makes the directory read-only with the setting
 * `readOnlyWhenDamaged`.
 */
export function failureOutcome(error: unknown, { log, partition, config }: FailureServices): Outcome {
  const damage = damageOf(error);
  if (error instanceof LdapError && !damage) return errorOutcome(error);
  if (error instanceof SlowWorkFull) return outcome('busy', `${error.message}; try again`);
  if (error instanceof SlowWorkAbandoned) return outcome('canceled', error.message);
  const incident = randomBytes(6).toString('hex');
  if (damage) {
    const { table, key, message } = damage;
    log.error({ incident, table, key }, `stored data is damaged: ${message}`);
    if (config.readOnlyWhenDamaged) partition.store.holdWrites?.(message);
    return outcome('other', `stored data is damaged; incident ${incident} in the server's log`);
  }
  log.error({ incident, err: error }, 'unexpected error');
  return outcome('other', `internal error; incident ${incident} in the server's log`);
}
