/**
 * Parts of the program: sockets and Node streams, LMDB with its package, folders of src, the garbage collector of V8.
 */
export const PARTS = [
  'socket',
  'LMDB',
  'store',
  'partition',
  'schema',
  'protocol, LDIF',
  'server',
  'collector',
  'other',
];

const ROOMS = new Map([
  ['store', 'store'],
  ['partition', 'partition'],
  ['schema', 'schema'],
  ['protocol', 'protocol, LDIF'],
  ['ldap', 'protocol, LDIF'],
  ['ldif', 'protocol, LDIF'],
  ['server', 'server'],
]);

/** Returns the part of a frame. Undefined when the caller decides, such as for a buffer copy. */
function partOf({ functionName, url }) {
  if (functionName === '(garbage collector)') return 'collector';
  if (functionName === 'writeBuffer' || /^node:(net|internal\/stream|stream)/.test(url)) return 'socket';
  if (url.includes('/node_modules/lmdb/')) return 'LMDB';
  const room = /\/dist\/src\/([a-z]+)\//.exec(url)?.[1];
  return room && (ROOMS.get(room) ?? 'other');
}

/** Returns the busy and the idle microseconds of a V8 profile between `from` and `until`; the busy ones by part. */
export function sharesOf(profile, from, until) {
  const nodes = new Map(profile.nodes.map((node) => [node.id, node]));
  const callers = new Map();
  for (const node of profile.nodes) for (const child of node.children ?? []) callers.set(child, node.id);
  const known = new Map();
  const find = (id) => {
    if (id === undefined) return 'other';
    if (!known.has(id)) known.set(id, partOf(nodes.get(id).callFrame) ?? find(callers.get(id)));
    return known.get(id);
  };
  const parts = new Map();
  let at = 0;
  let busy = 0;
  let waiting = 0;
  for (const [i, id] of profile.samples.entries()) {
    const took = profile.timeDeltas[i];
    at += took;
    if (at < from || at > until) continue;
    if (nodes.get(id).callFrame.functionName === '(idle)') waiting += took;
    else {
      busy += took;
      const part = find(id);
      parts.set(part, (parts.get(part) ?? 0) + took);
    }
  }
  return { busy, waiting, parts };
}
