/**
 * Renders a V8 CPU profile as a flame graph: callers below, callees above. The width of a frame is the time spent in
 * it.
 */

const WIDTH = 1200;
const ROW = 16;
const CHARACTER = 6.1;
/** Narrower frames are left out. In pixels. */
const NARROWEST = 1.2;
const HEADER = 44;

/** The parts of the program, by file: name, test, colour. The first match counts. */
const PARTS = [
  ['garbage collector', /^\(garbage collector\)/, '#c9c9c9'],
  ['server', /\/src\/server\//, '#f2a65a'],
  ['protocol', /\/src\/protocol\//, '#f6c85f'],
  ['partition', /\/src\/partition\//, '#8fbf7f'],
  ['schema', /\/src\/schema\//, '#b39ddb'],
  ['store', /\/src\/store\//, '#7fb2d9'],
  ['lmdb', /\/node_modules\/lmdb\//, '#4f86b5'],
  ['Node', /node:/, '#e0a0a0'],
  ['native and other', /./, '#dddddd'],
];

/** Sums the samples between two times (µs since the start of the profile) into a tree of frames. */
function treeOf({ profile, from, until }) {
  const nodes = new Map(profile.nodes.map((node) => [node.id, node]));
  const parents = new Map();
  for (const node of profile.nodes) for (const child of node.children ?? []) parents.set(child, node.id);
  const root = { name: 'all', time: 0, children: new Map() };
  let now = 0;
  profile.samples.forEach((id, i) => {
    const time = profile.timeDeltas[i];
    now += time;
    if (now < from || now > until) return;
    const stack = [];
    for (let at = id; at !== undefined; at = parents.get(at)) stack.unshift(nodes.get(at).callFrame);
    if (stack.at(-1).functionName === '(idle)') return;
    root.time += time;
    let frame = root;
    for (const call of stack.slice(1)) frame = step(frame, call, time);
  });
  return root;
}

function step(frame, { functionName, url, lineNumber }, time) {
  const file = url.replace(/^.*?\/(?=(src|node_modules)\/)/, '/').replace(/^file:\/\//, '');
  const key = `${functionName || '(anonymous)'} ${file}:${lineNumber + 1}`;
  let child = frame.children.get(key);
  if (!child) {
    child = { name: functionName || '(anonymous)', file, line: lineNumber + 1, time: 0, children: new Map() };
    frame.children.set(key, child);
  }
  child.time += time;
  return child;
}

function colour({ name, file }) {
  return PARTS.find(([, test]) => test.test(file || name))[2];
}

function escaped(text) {
  return text.replace(/[&<>"]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c]);
}

/** Yields the frames with their places: `x` and `width` in pixels, `depth` from the bottom. */
function placed(frame, x, depth, scale, out) {
  let at = x;
  const children = [...frame.children.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  for (const child of children) {
    const width = child.time * scale;
    if (width >= NARROWEST) {
      out.push({ ...child, x: at, width, depth });
      placed(child, at, depth + 1, scale, out);
    }
    at += width;
  }
  return out;
}

export function flameSvg(taken, title) {
  const root = treeOf(taken);
  const frames = placed(root, 0, 0, WIDTH / root.time, []);
  const rows = Math.max(...frames.map((frame) => frame.depth)) + 1;
  const height = HEADER + rows * ROW + 4;
  const draw = ({ name, file, line, time, x, width, depth }) => {
    const share = ((time / root.time) * 100).toFixed(1);
    const y = HEADER + (rows - 1 - depth) * ROW;
    const where = file ? ` ${file}:${line}` : '';
    const room = Math.floor((width - 4) / CHARACTER);
    const label = room < 3 ? '' : name.length > room ? `${name.slice(0, room - 1)}…` : name;
    const text = label && `<text x="${(x + 2).toFixed(1)}" y="${y + 11}">${escaped(label)}</text>`;
    return `<g><title>${escaped(`${name}${where}  ${share} %`)}</title><rect x="${x.toFixed(1)}" y="${y}" width="${Math.max(width - 0.4, 0.4).toFixed(1)}" height="${ROW - 1}" fill="${colour({ name, file })}"/>${text}</g>`;
  };
  const legend = PARTS.map(
    ([name, , fill], i) =>
      `<rect x="${4 + i * 130}" y="24" width="11" height="11" fill="${fill}"/><text x="${19 + i * 130}" y="33">${name}</text>`,
  );
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" font-family="monospace" font-size="10">
<title>${escaped(title)}</title>
<rect width="${WIDTH}" height="${height}" fill="#ffffff"/>
<text x="4" y="15" font-size="13">${escaped(title)}</text>
${legend.join('\n')}
${frames.map(draw).join('\n')}
</svg>
`;
}
