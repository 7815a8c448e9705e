import { SaxesParser } from 'saxes';
import { StoreError } from '../store-error.js';

export interface SiteSettings {
  /** `host` or `host:port`. */
  readonly masters: readonly string[];
  readonly restPort: number | undefined;
  readonly timeouts: Partial<Record<'rpcTimeoutMs' | 'scannerTimeoutMs' | 'retryPauseMs', number>>;
}

const MAX_CHARACTERS = 1024 * 1024;
const MAX_PROPERTIES = 10_000;
/** Maximum depth of references within references, as in Hadoop. */
const MAX_REFERENCES = 20;

const TIMEOUTS = {
  rpcTimeoutMs: 'hbase.rpc.timeout',
  scannerTimeoutMs: 'hbase.client.scanner.timeout.period',
  retryPauseMs: 'hbase.client.pause',
} as const;

function formatError(message: string): StoreError {
  return new StoreError('format', `hbase-site.xml: ${message}`);
}

/** Parses an hbase-site.xml. Throws `StoreError` `format`, also for Kerberos and TLS, which are not supported. */
export function siteSettings(text: string): SiteSettings {
  const properties = siteProperties(text);
  const propertyValue = (name: string): string | undefined => resolveReferences(properties, name);
  rejectUnsupported(propertyValue);
  const masterPort = propertyValue('hbase.master.port');
  const masters = (propertyValue('hbase.masters') ?? '')
    .split(',')
    .map((master) => master.trim())
    .filter((master) => master !== '')
    .map((master) => (masterPort !== undefined && !/:\d+$/.test(master) ? `${master}:${masterPort}` : master));
  const timeouts: SiteSettings['timeouts'] = {};
  for (const [name, property] of Object.entries(TIMEOUTS)) {
    const number = parseInteger(property, propertyValue(property), 3_600_000);
    if (number !== undefined) timeouts[name as keyof typeof TIMEOUTS] = number;
  }
  return { masters, timeouts, restPort: parseInteger('hbase.rest.port', propertyValue('hbase.rest.port'), 65_535) };
}

function rejectUnsupported(propertyValue: (name: string) => string | undefined): void {
  const authentication = propertyValue('hbase.security.authentication') ?? 'simple';
  if (authentication !== 'simple')
    throw formatError(`hbase.security.authentication is ${authentication}; Rowan speaks simple`);
  for (const name of ['hbase.client.netty.tls.enabled', 'hbase.server.netty.tls.enabled']) {
    if (propertyValue(name) === 'true') throw formatError(`${name} is true; Rowan speaks to HBase without TLS`);
  }
}

function parseInteger(name: string, text: string | undefined, max: number): number | undefined {
  if (text === undefined) return undefined;
  const number = Number(text);
  if (!/^\d{1,9}$/.test(text) || number < 1 || number > max)
    throw formatError(`${name} must be 1 to ${max}, not "${text}"`);
  return number;
}

/** Replaces each reference `${name}` by the value of that property. As in Hadoop, unknown references stay. */
function resolveReferences(properties: ReadonlyMap<string, string>, name: string): string | undefined {
  let value = properties.get(name);
  for (let depth = 0; value?.includes('${'); depth++) {
    if (depth === MAX_REFERENCES) throw formatError(`${name} refers to itself`);
    const expansion: string = value.replaceAll(
      /\$\{([^}$]+)\}/g,
      (reference, referredName: string) => properties.get(referredName) ?? reference,
    );
    if (expansion === value) break;
    if (expansion.length > MAX_CHARACTERS) throw formatError(`${name} grows too long`);
    value = expansion;
  }
  return value;
}

/** Parses Hadoop's flat format: `<configuration>` of `<property>` with `<name>` and `<value>`. No DOCTYPE. */
export function siteProperties(source: string): Map<string, string> {
  if (source.length > MAX_CHARACTERS) throw formatError(`${source.length} characters are no configuration`);
  return new SiteReader().read(source);
}

/** The allowed elements by depth, from the outermost. */
const ALLOWED_ELEMENTS = [['configuration'], ['property'], ['name', 'value', 'description', 'final', 'source']];

class SiteReader {
  readonly #properties = new Map<string, string>();
  readonly #parser = new SaxesParser();
  #depth = 0;
  #fields: { name?: string; value?: string } = {};
  #text = '';

  constructor() {
    const parser = this.#parser;
    parser.on('error', ({ message }) => this.#fail(message.replace(/^\d+:\d+: /, '')));
    parser.on('doctype', () => this.#fail('a DOCTYPE is not understood'));
    parser.on('opentag', ({ name, attributes }) => this.#open(name, Object.keys(attributes)));
    parser.on('closetag', ({ name }) => this.#close(name));
    parser.on('text', (text) => this.#appendText(text));
    parser.on('cdata', (text) => this.#appendText(text));
  }

  read(source: string): Map<string, string> {
    this.#parser.write(source).close();
    return this.#properties;
  }

  #fail(message: string): never {
    throw formatError(`line ${this.#parser.line}: ${message}`);
  }

  #open(name: string, attributes: readonly string[]): void {
    if (!ALLOWED_ELEMENTS[this.#depth]?.includes(name)) this.#fail(`<${name}> is not understood here`);
    if (attributes.length > 0) this.#fail(`attribute ${attributes[0]} of <${name}> is not understood`);
    if (this.#depth === 1) this.#fields = {};
    this.#depth++;
    this.#text = '';
  }

  #appendText(text: string): void {
    if (this.#depth < ALLOWED_ELEMENTS.length && text.trim() !== '') this.#fail('text outside of name and value');
    this.#text += text;
  }

  #close(element: string): void {
    this.#depth--;
    if (element === 'name' || element === 'value') this.#fields[element] = this.#text.trim();
    if (element === 'property') this.#addProperty(this.#fields);
  }

  #addProperty({ name, value }: { readonly name?: string; readonly value?: string }): void {
    if (name === undefined || name === '') this.#fail('a property without a name');
    if (this.#properties.size === MAX_PROPERTIES) this.#fail(`more than ${MAX_PROPERTIES} properties`);
    if (value !== undefined) this.#properties.set(name, value);
  }
}
