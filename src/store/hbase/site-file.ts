import { StoreError } from '../errors.js';

/** What Rowan takes from an hbase-site.xml. */
export interface SiteSettings {
  /** `host` or `host:port`. */
  readonly masters: readonly string[];
  readonly restPort: number | undefined;
  readonly timeouts: Partial<Record<'rpcTimeoutMs' | 'scannerTimeoutMs' | 'retryPauseMs', number>>;
}

const MAX_CHARACTERS = 1024 * 1024;
const MAX_PROPERTIES = 10_000;
/** References within references, as Hadoop follows them. */
const MAX_REFERENCES = 20;

const TIMEOUTS = {
  rpcTimeoutMs: 'hbase.rpc.timeout',
  scannerTimeoutMs: 'hbase.client.scanner.timeout.period',
  retryPauseMs: 'hbase.client.pause',
} as const;

function fault(message: string): StoreError {
  return new StoreError('format', `hbase-site.xml: ${message}`);
}

/** Reads the text of an hbase-site.xml. Throws `StoreError` `format`, also for what Rowan cannot do: Kerberos, TLS. */
export function siteSettings(text: string): SiteSettings {
  const properties = siteProperties(text);
  const value = (name: string): string | undefined => resolveReferences(properties, name);
  refuseUnsupported(value);
  const masterPort = value('hbase.master.port');
  const masters = (value('hbase.masters') ?? '')
    .split(',')
    .map((master) => master.trim())
    .filter((master) => master !== '')
    .map((master) => (masterPort !== undefined && !/:\d+$/.test(master) ? `${master}:${masterPort}` : master));
  const timeouts: SiteSettings['timeouts'] = {};
  for (const [name, property] of Object.entries(TIMEOUTS)) {
    const number = wholeNumber(property, value(property), 3_600_000);
    if (number !== undefined) timeouts[name as keyof typeof TIMEOUTS] = number;
  }
  return { masters, timeouts, restPort: wholeNumber('hbase.rest.port', value('hbase.rest.port'), 65_535) };
}

function refuseUnsupported(value: (name: string) => string | undefined): void {
  const authentication = value('hbase.security.authentication') ?? 'simple';
  if (authentication !== 'simple')
    throw fault(`hbase.security.authentication is ${authentication}; Rowan speaks simple`);
  for (const name of ['hbase.client.netty.tls.enabled', 'hbase.server.netty.tls.enabled']) {
    if (value(name) === 'true') throw fault(`${name} is true; Rowan speaks to HBase without TLS`);
  }
}

function wholeNumber(name: string, text: string | undefined, max: number): number | undefined {
  if (text === undefined) return undefined;
  const number = Number(text);
  if (!/^\d{1,9}$/.test(text) || number < 1 || number > max) throw fault(`${name} must be 1 to ${max}, not "${text}"`);
  return number;
}

/** `${other}` stands for another property; what is not in the file stays as it is, as Hadoop leaves it. */
function resolveReferences(properties: ReadonlyMap<string, string>, name: string): string | undefined {
  let value = properties.get(name);
  for (let depth = 0; value?.includes('${'); depth++) {
    if (depth === MAX_REFERENCES) throw fault(`${name} refers to itself`);
    const next: string = value.replaceAll(/\$\{([^}$]+)\}/g, (all, other: string) => properties.get(other) ?? all);
    if (next === value) break;
    if (next.length > MAX_CHARACTERS) throw fault(`${name} grows too long`);
    value = next;
  }
  return value;
}

/** One piece of the file: markup without its angle brackets, or the text up to the next. */
interface Token {
  readonly markup: boolean;
  readonly text: string;
  readonly at: number;
}

/**
 * The flat form that Hadoop's files have: `<configuration>` of `<property>` with `<name>` and `<value>`. Of XML it knows
 * comments, CDATA and the predefined and numbered entities; a DOCTYPE and included files are refused.
 */
export function siteProperties(source: string): Map<string, string> {
  if (source.length > MAX_CHARACTERS) throw fault(`${source.length} characters are no configuration`);
  const found = new Map<string, string>();
  const open: string[] = [];
  let fields: { name?: string; value?: string } = {};
  let text = '';
  for (const token of tokens(source)) {
    const fail = (message: string): StoreError => fault(`line ${lineOf(source, token.at)}: ${message}`);
    if (!token.markup) {
      text += token.text;
      if (open.length < 3 && token.text.trim() !== '') throw fail('text outside of name and value');
      continue;
    }
    const tag = /^(\/?)([A-Za-z][\w.-]*)\s*(\/?)$/.exec(token.text);
    if (!tag) throw fail(`<${token.text.slice(0, 40)}> is not understood`);
    const [, closing, element, empty] = tag;
    if (closing) {
      if (open.pop() !== element) throw fail(`</${element}> closes nothing`);
      if (open.length === 2 && (element === 'name' || element === 'value')) fields[element] = text.trim();
      if (open.length === 1) keep(found, fields, fail);
    } else {
      if (element !== ['configuration', 'property'][open.length] && open.length < 2)
        throw fail(`<${element}> is not understood here`);
      if (open.length > 2) throw fail(`<${element}> within <${open[2]}>`);
      if (open.length === 1) fields = {};
      if (empty && element === 'value') fields.value = '';
      if (!empty) open.push(element!);
    }
    text = '';
  }
  if (open.length > 0) throw fault(`<${open.at(-1)}> is not closed`);
  return found;
}

function keep(
  found: Map<string, string>,
  { name, value }: { name?: string; value?: string },
  fail: (message: string) => StoreError,
): void {
  if (name === undefined || name === '') throw fail('a property without a name');
  if (found.size === MAX_PROPERTIES) throw fail(`more than ${MAX_PROPERTIES} properties`);
  if (value !== undefined) found.set(name, value);
}

function* tokens(source: string): Generator<Token> {
  for (let at = source.charCodeAt(0) === 0xfeff ? 1 : 0; at < source.length; ) {
    const skipped = skip(source, at, '<!--', '-->') ?? skip(source, at, '<?', '?>');
    if (skipped !== undefined) {
      at = skipped;
      continue;
    }
    const after = skip(source, at, '<![CDATA[', ']]>');
    if (after !== undefined) {
      yield { markup: false, text: source.slice(at + 9, after - 3), at };
      at = after;
      continue;
    }
    const markup = source[at] === '<';
    const end = source.indexOf(markup ? '>' : '<', at);
    if (markup && end < 0) throw fault(`line ${lineOf(source, at)}: "<" without ">"`);
    const stop = end < 0 ? source.length : end;
    yield markup
      ? { markup, text: source.slice(at + 1, stop), at }
      : { markup, text: decodeEntities(source.slice(at, stop), () => lineOf(source, at)), at };
    at = markup ? stop + 1 : stop;
  }
}

/** Where the piece that begins with `start` ends, or undefined when another begins here. */
function skip(source: string, at: number, start: string, end: string): number | undefined {
  if (!source.startsWith(start, at)) return undefined;
  const stop = source.indexOf(end, at + start.length);
  if (stop < 0) throw fault(`line ${lineOf(source, at)}: ${start} without ${end}`);
  return stop + end.length;
}

const ENTITIES: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };

function decodeEntities(text: string, line: () => number): string {
  if (!text.includes('&')) return text;
  return text.replaceAll(/&(?:#(\d{1,7})|#x([0-9a-fA-F]{1,6})|(\w{1,10}))?;?/g, (all, decimal, hex, name) => {
    const code = decimal !== undefined ? Number(decimal) : hex !== undefined ? Number.parseInt(hex, 16) : undefined;
    const character =
      code !== undefined && code <= 0x10ffff ? String.fromCodePoint(code) : name ? ENTITIES[name as string] : undefined;
    if (character === undefined || !all.endsWith(';')) throw fault(`line ${line()}: "${all}" is no entity`);
    return character;
  });
}

function lineOf(source: string, at: number): number {
  let line = 1;
  for (let i = source.indexOf('\n'); i >= 0 && i < at; i = source.indexOf('\n', i + 1)) line++;
  return line;
}
