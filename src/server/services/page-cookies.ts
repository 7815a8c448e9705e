import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Partition } from '../../partition/index.js';
import { encodeRequest } from '../../protocol/encode.js';
import type { SearchRequest } from '../../protocol/ldap-messages.js';
import type { Dn } from '../../schema/schema-types.js';
import type { Config } from '../settings/index.js';

/** The position at which the next page of a search begins. */
export interface PagePosition {
  readonly resumeKey: Buffer;
  /** Number of entries sent in earlier pages. */
  readonly sentCount: number;
}

/** Layout of a cookie: format, expiry in seconds (u32), entries sent (u32), resume key, MAC (docs/server.md). */
const FORMAT = 1;
const HEADER_BYTES = 9;
const MAC_BYTES = 32;

/**
 * Cookies of the paged results control (RFC 2696). Cookies are signed and stateless, so that a search can continue on a
 * new connection and on another front end of the same directory. The signature covers the identity of the client and
 * all parameters of the search.
 */
export class PageCookies {
  readonly #partition: Partition;
  readonly #limits: Config['limits'];

  constructor(partition: Partition, limits: Config['limits']) {
    this.#partition = partition;
    this.#limits = limits;
  }

  seal(position: PagePosition, request: SearchRequest, base: Dn, identity: string, now = Date.now()): Buffer {
    const head = Buffer.alloc(HEADER_BYTES);
    head[0] = FORMAT;
    head.writeUInt32BE(Math.floor(now / 1000) + this.#limits.pageCookieSeconds, 1);
    head.writeUInt32BE(position.sentCount, 5);
    const body = Buffer.concat([head, position.resumeKey]);
    return Buffer.concat([body, this.#mac(body, request, base, identity)]);
  }

  /** Throws `unwillingToPerform` (RFC 2696 §3) for a cookie that is forged, expired, or of another search or user. */
  open(cookie: Buffer, request: SearchRequest, base: Dn, identity: string, now = Date.now()): PagePosition {
    const body = cookie.subarray(0, Math.max(0, cookie.length - MAC_BYTES));
    const isGenuine =
      body.length >= HEADER_BYTES &&
      timingSafeEqual(cookie.subarray(body.length), this.#mac(body, request, base, identity));
    if (!isGenuine || body[0] !== FORMAT) {
      throw new LdapError(
        'unwillingToPerform',
        'paged results: this cookie was not given to this user for this search',
      );
    }
    if (body.readUInt32BE(1) * 1000 < now) {
      throw new LdapError('unwillingToPerform', 'paged results: the cookie has expired; search again');
    }
    return { resumeKey: Buffer.from(body.subarray(HEADER_BYTES)), sentCount: body.readUInt32BE(5) };
  }

  #mac(body: Buffer, request: SearchRequest, base: Dn, identity: string): Buffer {
    const mac = createHmac('sha256', this.#partition.settings.cookieKey);
    return mac.update(body).update(searchDigest(request, base)).update(identity).digest();
  }
}

/** Returns a hash of all parameters of a search but its limits. */
export function searchDigest(request: SearchRequest, base: Dn): Buffer {
  return createHash('sha256')
    .update(encodeRequest({ id: 0, request: { ...request, base: '', sizeLimit: 0, timeLimit: 0 }, controls: [] }))
    .update(base.norm)
    .digest();
}
