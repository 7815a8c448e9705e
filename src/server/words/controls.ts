import { LdapError } from '../../ldap/ldap-error.js';
import { decodeEffectiveRights, type EffectiveRightsRequest } from '../../protocol/controls/effective-rights.js';
import { expectNoValue } from '../../protocol/controls/no-value.js';
import { decodePagedResults, type PagedResults } from '../../protocol/controls/paged-results.js';
import type { Control, Request } from '../../protocol/ldap-messages.js';
import { ControlOid } from '../../protocol/oids.js';
import { printable } from './printable.js';

/** The controls of a request, read. */
export interface RequestControls {
  /** RFC 3296: referral and alias entries are treated as entries. */
  readonly manageDsaIT: boolean;
  /** RFC 2696. */
  readonly paged: PagedResults | undefined;
  /** draft-behera-ldap-password-policy-10: the answer tells what the password policy says. */
  readonly passwordPolicy: boolean;
  /** Each entry found tells what somebody may do with it. */
  readonly effectiveRights: EffectiveRightsRequest | undefined;
  /** Each entry found tells whether one can bind as it. */
  readonly accountUsability: boolean;
}

export const NO_CONTROLS: RequestControls = {
  manageDsaIT: false,
  paged: undefined,
  passwordPolicy: false,
  effectiveRights: undefined,
  accountUsability: false,
};

type Reading = { -readonly [K in keyof RequestControls]: RequestControls[K] };

const DATA_OPERATIONS: readonly Request['op'][] = ['search', 'compare', 'add', 'modify', 'delete', 'modifyDN'];

/** Operations that each control goes with; also what the root DSE tells in supportedControl. */
const APPLIES = new Map<string, readonly Request['op'][]>([
  [ControlOid.manageDsaIT, DATA_OPERATIONS],
  [ControlOid.pagedResults, ['search']],
  [ControlOid.effectiveRights, ['search']],
  [ControlOid.accountUsability, ['search']],
  [ControlOid.passwordPolicy, ['bind', 'extended', ...DATA_OPERATIONS]],
]);

export const SUPPORTED_CONTROLS: readonly string[] = [...APPLIES.keys()];

/**
 * Reads the controls of a request (RFC 4511 §4.1.11). A critical one that is unknown or does not go with the operation:
 * `unavailableCriticalExtension`; another such one is ignored. One that comes twice or whose value is malformed:
 * `protocolError`.
 */
export function readControls(op: Request['op'], controls: readonly Control[]): RequestControls {
  if (controls.length === 0) return NO_CONTROLS;
  const read: Reading = { ...NO_CONTROLS };
  const seen = new Set<string>();
  for (const control of controls) {
    if (seen.has(control.oid)) throw new LdapError('protocolError', `control ${printable(control.oid)} is given twice`);
    seen.add(control.oid);
    if (APPLIES.get(control.oid)?.includes(op)) take(control, read);
    else if (control.critical) throw unavailable(control.oid, op);
  }
  return read;
}

function take(control: Control, into: Reading): void {
  switch (control.oid) {
    case ControlOid.manageDsaIT:
      expectNoValue(control, 'ManageDsaIT');
      into.manageDsaIT = true;
      break;
    case ControlOid.passwordPolicy:
      expectNoValue(control, 'password policy');
      into.passwordPolicy = true;
      break;
    case ControlOid.accountUsability:
      expectNoValue(control, 'account usability');
      into.accountUsability = true;
      break;
    case ControlOid.effectiveRights:
      into.effectiveRights = decodeEffectiveRights(control.value);
      break;
    default:
      into.paged = decodePagedResults(control.value);
  }
}

function unavailable(oid: string, op: Request['op']): LdapError {
  const what = APPLIES.has(oid) ? `does not go with ${op}` : 'is not supported';
  return new LdapError('unavailableCriticalExtension', `critical control ${printable(oid)} ${what}`);
}
