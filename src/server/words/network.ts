import { isIPv6 } from 'node:net';

const GROUPS = 8;
/** A client of IPv6 has 64 bits of address to itself. */
const NETWORK_GROUPS = 4;

/** What is taken for one sender: an address of IPv4, a /64 of IPv6, or this machine where there is no address. */
export function networkOf(address: string | undefined): string {
  if (address === undefined) return 'local';
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address);
  if (mapped) return mapped[1]!;
  if (!isIPv6(address)) return address;
  const [head = '', tail] = address.split('%', 1)[0]!.toLowerCase().split('::');
  const before = head === '' ? [] : head.split(':');
  const after = tail ? tail.split(':') : [];
  const zeros = tail === undefined ? 0 : GROUPS - before.length - after.length;
  return `${[...before, ...Array(zeros).fill('0'), ...after].slice(0, NETWORK_GROUPS).join(':')}::/64`;
}
