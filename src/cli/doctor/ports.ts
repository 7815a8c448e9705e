import { connect, createServer } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { pino } from 'pino';
import { encodeRequest } from '../../protocol/encode.js';
import type { SearchRequest } from '../../protocol/ldap-messages.js';
import { type ListenAddress, openListeners, parseListenUrl } from '../../server/listen/listener.js';
import { VENDOR } from '../../server/words/version.js';
import { describeError } from '../exit.js';
import { openHttpListener } from '../http/http-listener.js';
import type { Settings } from '../options.js';
import { type Finding, fault, ok } from './finding.js';

const silentLog = pino({ level: 'silent' });
const REMEDIES: Readonly<Record<string, string>> = {
  EACCES: 'choose a port above 1023, or give the service the capability CAP_NET_BIND_SERVICE',
  EADDRNOTAVAIL: 'name an address of this machine',
  EADDRINUSE: 'end the other program ("ss -ltnp" names it), or choose another address',
};
/** Milliseconds within which a Rowan server answers. */
const ANSWER_MS = 3000;
const MAX_ANSWER_LENGTH = 65_536;

/** Checks that each address of `listen` and `http.listen` is free, or held by a Rowan server, and has its token. */
export async function checkPorts({ config }: Settings): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const address of config.listen.map(parseListenUrl)) {
    const open = async () => (await openListeners([address], [createServer()], config, silentLog))[0]!;
    findings.push(await checkPort(address.url, open, () => isHeldByRowan(address)));
  }
  const { listen, tokenFile } = config.http;
  if (listen !== undefined) {
    const open = async () => (await openHttpListener(listen, tokenFile, [], silentLog)).server;
    findings.push(await checkPort(`http://${listen}`, open, () => isHttpOfRowan(listen)));
  }
  return findings;
}

async function checkPort(
  url: string,
  open: () => Promise<{ close(): void }>,
  isHeldByRowan: () => Promise<boolean>,
): Promise<Finding> {
  try {
    (await open()).close();
    return ok(`${url} is free`);
  } catch (error) {
    const { code = '' } = ((error as Error).cause ?? {}) as NodeJS.ErrnoException;
    if (code === 'EADDRINUSE' && (await isHeldByRowan())) return ok(`a Rowan server listens on ${url}`);
    return fault(describeError(error), REMEDIES[url.startsWith('ldapi:') ? '' : code] ?? 'correct the setting');
  }
}

async function isHttpOfRowan(listen: string): Promise<boolean> {
  const controller = new AbortController();
  // `AbortSignal.timeout` would let the process end while a program that resets connections is asked.
  const timer = setTimeout(() => controller.abort(), ANSWER_MS);
  try {
    const reply = await fetch(`http://${listen}/live`, { signal: controller.signal });
    return reply.headers.get('content-length') === '5' && (await reply.text()) === 'live\n';
  } catch {
    // No connection, or no HTTP: another program.
    return false;
  } finally {
    clearTimeout(timer);
  }
}

const ROOT_DSE: SearchRequest = {
  ...{ op: 'search', base: '', scope: 'base', deref: 'never', sizeLimit: 0, timeLimit: 0, typesOnly: false },
  ...{ filter: { type: 'present', attribute: 'objectClass' }, attributes: ['vendorName'] },
};

/** Whether the root DSE at the address names Rowan. */
async function isHeldByRowan(address: ListenAddress): Promise<boolean> {
  const target = address.scheme === 'ldapi' ? { path: address.path } : { host: address.host, port: address.port };
  const socket = address.scheme === 'ldaps' ? connectTls({ ...target, rejectUnauthorized: false }) : connect(target);
  const timer = setTimeout(() => socket.destroy(), ANSWER_MS);
  let answer = '';
  try {
    socket.write(encodeRequest({ id: 1, request: ROOT_DSE, controls: [] }));
    for await (const chunk of socket) {
      answer += (chunk as Buffer).toString('latin1');
      if (answer.includes(VENDOR)) return true;
      if (answer.length > MAX_ANSWER_LENGTH) return false;
    }
    return false;
  } catch {
    // No connection, or no LDAP: another program.
    return false;
  } finally {
    clearTimeout(timer);
    socket.destroy();
  }
}
