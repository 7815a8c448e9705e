import { encodePasswordPolicy, type PasswordPolicyResponse } from '../../protocol/controls/password-policy.js';
import { ControlOid } from '../../protocol/oids.js';
import { PolicyRefusal } from '../passwords/password-hashing.js';
import { errorOutcome, type Outcome } from '../words/outcome.js';
import type { Identity } from '../words/session.js';
import type { Context } from './context.js';

/**
 * Returns the outcome with the response control for the state of the password policy. Clients that sent the password
 * policy control always get its response control. Other clients get the older controls, only for a warning or error.
 */
export function withPolicyControl(
  { controls }: Pick<Context, 'controls'>,
  outcome: Outcome,
  state: PasswordPolicyResponse,
): Outcome {
  if (controls.passwordPolicy) return withControl(outcome, ControlOid.passwordPolicy, encodePasswordPolicy(state));
  const { error, expiresIn } = state;
  if (error === 'passwordExpired' || error === 'changeAfterReset')
    return withControl(outcome, ControlOid.passwordExpired, Buffer.from('0'));
  if (expiresIn === undefined) return outcome;
  return withControl(outcome, ControlOid.passwordExpiring, Buffer.from(String(expiresIn)));
}

function withControl(outcome: Outcome, oid: string, value: Buffer): Outcome {
  return { ...outcome, controls: [...(outcome.controls ?? []), { oid, critical: false, value }] };
}

/** Returns the outcome of a `PolicyRefusal`, with the policy control. Throws any other error. */
export function policyRefusalOutcome(context: Pick<Context, 'controls'>, error: unknown): Outcome {
  if (!(error instanceof PolicyRefusal)) throw error;
  return withPolicyControl(context, errorOutcome(error), { error: error.policyError });
}

/** Runs a change of passwords. The outcome has the policy control. */
export async function runPasswordChange(context: Context, change: () => Promise<Outcome>): Promise<Outcome> {
  try {
    return withPolicyControl(context, await change(), {});
  } catch (error) {
    return policyRefusalOutcome(context, error);
  }
}

/** Throws when the password has been reset and must be changed first. */
export function requireNoReset(identity: Identity): void {
  if (identity.kind === 'user' && identity.mustChange) throw resetError();
}

/** Throws in a session that bound with an application password, which may not change passwords. */
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
