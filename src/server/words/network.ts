import { isIPv6 } from 'node:net';

const IPV6_GROUPS = 8;
/** A /64: an IPv6 client controls the lower 64 bits of its address. */
const NETWORK_GROUPS = 4;

/** Returns the network that counts as one sender: an IPv4 address, a /64 of IPv6, or `local` without an address. */
export function clientNetwork(address: string | undefined): string {
  if (address === undefined) return 'local';
  const mappedMatch = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address);
  if (mappedMatch) return mappedMatch[1]!;
  if (!isIPv6(address)) return address;
  const [head = '', tail] = address.split('%', 1)[0]!.toLowerCase().split('::');
  const headGroups = head === '' ? [] : head.split(':');
  const tailGroups = tail ? tail.split(':') : [];
  const zeroCount = tail === undefined ? 0 : IPV6_GROUPS - headGroups.length - tailGroups.length;
  return `${[...headGroups, ...Array(zeroCount).fill('0'), ...tailGroups].slice(0, NETWORK_GROUPS).join(':')}::/64`;
}
