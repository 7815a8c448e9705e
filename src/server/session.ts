/**
 * Who a connection acts as. A bind replaces the whole identity, so nothing of an earlier one survives it
 * (RFC 4511 §4.2.1).
 */
export type Identity =
  | { readonly kind: 'anonymous' }
  | {
      readonly kind: 'user';
      /** As stored when it was last read. */
      readonly dn: string;
      /** entryUUID. */
      readonly id: Buffer;
      /** The entry's version when its passwords were last looked at. */
      readonly version: bigint;
      /** Copies of the stored passwords at that version: the bind holds for as long as they do. */
      readonly passwords: readonly Buffer[];
    }
  | {
      readonly kind: 'admin';
      readonly dn: string /** Stored password that was verified. */;
      readonly password: Buffer;
    };

export const ANONYMOUS: Identity = { kind: 'anonymous' };

export class Session {
  identity: Identity = ANONYMOUS;

  /** DN for creatorsName, whoAmI and the log; '' when anonymous. */
  get dn(): string {
    return this.identity.kind === 'anonymous' ? '' : this.identity.dn;
  }

  get isAdmin(): boolean {
    return this.identity.kind === 'admin';
  }
}
