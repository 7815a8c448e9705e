import { MAX_INT } from '../reader.js';
import { constructedContextTag, contextTag } from '../tags.js';
import { Writer } from '../writer.js';

/**
 * Whether a user can bind as an entry (control 1.3.6.1.4.1.42.2.27.9.5.8). `expiresIn`: seconds until the password
 * expires; -1 if it does not expire. `untilUnlock`: seconds until a lock ends; undefined without a lock and for a
 * permanent lock.
 */
export type AccountUsability =
  | { readonly usable: true; readonly expiresIn: number }
  | {
      readonly usable: false;
      /** The account is locked or disabled. */
      readonly inactive: boolean;
      /** Whether the password has to be changed before any other operation. */
      readonly reset: boolean;
      readonly expired: boolean;
      /** Remaining grace logins after expiry. */
      readonly grace?: number | undefined;
      readonly untilUnlock?: number | undefined;
    };

/**
 * Encodes the value of the response control: `CHOICE { [0] INTEGER, [1] SEQUENCE { inactive [0] BOOLEAN, reset [1]
 * BOOLEAN, expired [2] BOOLEAN, remainingGrace [3] INTEGER OPTIONAL, secondsBeforeUnlock [4] INTEGER OPTIONAL } }`.
 */
export function encodeAccountUsability(usability: AccountUsability): Buffer {
  const writer = new Writer();
  if (usability.usable) writer.integer(contextTag(0), Math.min(usability.expiresIn, MAX_INT));
  else {
    const { inactive, reset, expired, grace, untilUnlock } = usability;
    const element = writer.begin(constructedContextTag(1));
    writer.boolean(contextTag(0), inactive);
    writer.boolean(contextTag(1), reset);
    writer.boolean(contextTag(2), expired);
    if (grace !== undefined) writer.integer(contextTag(3), grace);
    if (untilUnlock !== undefined) writer.integer(contextTag(4), Math.min(untilUnlock, MAX_INT));
    writer.end(element);
  }
  return Buffer.from(writer.take());
}
