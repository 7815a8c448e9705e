import { LdapError } from '../../ldap/ldap-error.js';
import { expectNoValue } from '../../protocol/controls/no-value.js';
import { decodePagedResults, type PagedResults } from '../../protocol/controls/paged-results.js';
import type { Control, Request } from '../../protocol/messages.js';
import { ControlOid } from '../../protocol/oids.js';
import { printable } from './printable.js';

/** The controls of a request, read. */
export interface RequestControls {
  /** RFC 3296: referral and alias entries are treated as entries. */
  readonly manageDsaIT: boolean;
  /** RFC 2696. */
  readonly paged: PagedResults | undefined;
}

export const NO_CONTROLS: RequestControls = { manageDsaIT: false, paged: undefined };

const DATA_OPERATIONS: readonly Request['op'][] = ['search', 'compare', 'add', 'modify', 'delete', 'modifyDN'];

/** Operations that each control goes with; also what the root DSE tells in supportedControl. */
const APPLIES = new Map<string, readonly Request['op'][]>([
  [ControlOid.manageDsaIT, DATA_OPERATIONS],
  [ControlOid.pagedResults, ['search']],
]);

export const SUPPORTED_CONTROLS: readonly string[] = [...APPLIES.keys()];

/**
 * Reads the controls of a request (RFC 4511 §4.1.11). A critical one that is unknown or does not go with the operation:
 * `unavailableCriticalExtension`; another such one is ignored. One that comes twice or whose value is malformed:
 * `protocolError`.
 */
export function readControls(op: Request['op'], controls: readonly Control[]): RequestControls {
  if (controls.length === 0) return NO_CONTROLS;
  let manageDsaIT = false;
  let paged: PagedResults | undefined;
  const seen = new Set<string>();
  for (const control of controls) {
    if (seen.has(control.oid)) throw new LdapError('protocolError', `control ${printable(control.oid)} is given twice`);
    seen.add(control.oid);
    if (!APPLIES.get(control.oid)?.includes(op)) {
      if (control.critical) throw unavailable(control.oid, op);
    } else if (control.oid === ControlOid.manageDsaIT) {
      expectNoValue(control, 'ManageDsaIT');
      manageDsaIT = true;
    } else paged = decodePagedResults(control.value);
  }
  return { manageDsaIT, paged };
}

function unavailable(oid: string, op: Request['op']): LdapError {
  const what = APPLIES.has(oid) ? `does not go with ${op}` : 'is not supported';
  return new LdapError('unavailableCriticalExtension', `critical control ${printable(oid)} ${what}`);
}
