import { isIP } from 'node:net';
import type { Network } from './rule.js';

const EXAMPLES = '10.1.2.3, 10.0.0.0/8, 2001:db8::1 or 2001:db8::/32';

/** Parses an IP address or a network in CIDR notation. Returns an error message if the text is neither. */
export function parseNetwork(text: string): Network | string {
  const [address = '', prefixText, ...extras] = text.split('/');
  const version = address.includes('%') ? 0 : isIP(address);
  if (version === 0 || extras.length > 0) return `'${text}' is no address and no network; write it like ${EXAMPLES}`;
  const family = version === 6 ? 'ipv6' : 'ipv4';
  const maxPrefix = version === 6 ? 128 : 32;
  if (prefixText !== undefined && !(/^\d{1,3}$/.test(prefixText) && Number(prefixText) <= maxPrefix))
    return `'${text}': behind the '/' stands a number from 0 to ${maxPrefix}`;
  if (/^::ffff:/i.test(address)) return `'${text}' never comes: a client's IPv4 address is written like 10.0.0.0/8`;
  return { text, address, prefix: prefixText === undefined ? maxPrefix : Number(prefixText), family };
}
