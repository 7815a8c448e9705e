import { isIPv6 } from 'node:net';

const IPV6_GROUPS = 8;
/** A /64: an IPv6 client controls the lower 64 bits of its address. */
const NETWORK_GROUPS = 4;

/** Returns the network that counts as one sender: an IPv4 address, a /64 of IPv6, or `local` without an address. */
export function networkOf(address: string | undefined): string {
  if (address === undefined) return 'local';
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address);
  if (mapped) return mapped[1]!;
  if (!isIPv6(address)) return address;
  const [head = '', tail] = address.split('%', 1)[0]!.toLowerCase().split('::');
  const before = head === '' ? [] : head.split(':');
  const after = tail ? tail.split(':') : [];
  const zeros = tail === undefined ? 0 : IPV6_GROUPS - before.length - after.length;
  return `${[...before, ...Array(zeros).fill('0'), ...after].slice(0, NETWORK_GROUPS).join(':')}::/64`;
}
