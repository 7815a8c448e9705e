import { encodePasswordPolicy, type PasswordPolicyTold } from '../../protocol/controls/password-policy.js';
import type { Control } from '../../protocol/ldap-messages.js';
import { ControlOid } from '../../protocol/oids.js';
import { PolicyRefusal } from '../passwords/policy-refusal.js';
import { type Outcome, outcomeOf } from '../words/outcome.js';
import type { Identity } from '../words/session.js';
import type { Context } from './context.js';

/**
 * The outcome with what the password policy has to tell: to those who asked, by its control, which is empty where there
 * is nothing to tell; to others by the older controls, and only where there is something.
 */
export function telling({ controls }: Pick<Context, 'controls'>, outcome: Outcome, told: PasswordPolicyTold): Outcome {
  if (controls.passwordPolicy)
    return { ...outcome, controls: [control(ControlOid.passwordPolicy, encodePasswordPolicy(told))] };
  const { error, expiresIn } = told;
  if (error === 'passwordExpired' || error === 'changeAfterReset')
    return { ...outcome, controls: [control(ControlOid.passwordExpired, Buffer.from('0'))] };
  if (expiresIn === undefined) return outcome;
  return { ...outcome, controls: [control(ControlOid.passwordExpiring, Buffer.from(String(expiresIn)))] };
}

function control(oid: string, value: Buffer): Control {
  return { oid, critical: false, value };
}

/** What a password policy refuses as an outcome that tells so. Throws any other error. */
export function refusedByPolicy(context: Pick<Context, 'controls'>, error: unknown): Outcome {
  if (!(error instanceof PolicyRefusal)) throw error;
  return telling(context, outcomeOf(error), { error: error.policyError });
}

/** Runs a change of passwords: its answer tells what the policy has to tell. */
export async function tellingPolicy(context: Context, change: () => Promise<Outcome>): Promise<Outcome> {
  try {
    return telling(context, await change(), {});
  } catch (error) {
    return refusedByPolicy(context, error);
  }
}

/** Throws where the password has been reset and has to be changed before anything else. */
export function requireNoReset(identity: Identity): void {
  if (identity.kind === 'user' && identity.mustChange) throw resetError();
}

/** Throws where the session has bound with an application password: it changes no password. */
export function requireOwnPassword(identity: Identity): void {
  if (identity.kind !== 'user' || !identity.application) return;
  throw new PolicyRefusal(
    'insufficientAccessRights',
    'passwordModNotAllowed',
    'an application password changes no passwords; bind with the password itself',
  );
}

export function resetError(): PolicyRefusal {
  return new PolicyRefusal(
    'insufficientAccessRights',
    'changeAfterReset',
    'the password has been reset: change it, and do what you want then',
  );
}
