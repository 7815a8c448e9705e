import type { Command } from 'commander';
import type { Logger } from 'pino';
import type { RowanServer } from '../../server/server.js';
import { openDirectory } from '../directory.js';
import { Maintenance } from '../maintenance.js';
import { addServerOptions, directoryCommand, type Settings, settingsOf } from '../options.js';

const EXAMPLES = `
Examples:
  For programs on this machine:
    rowan serve --data data --listen ldap://127.0.0.1:1389

  With TLS, and a socket for root's scripts:
    rowan serve --data data --listen ldap://0.0.0.0 --listen ldaps://0.0.0.0 --listen ldapi://%2Frun%2Frowan.sock \\
      --tls-cert server.crt --tls-key server.key

  From a configuration file ("rowan config" shows what can stand in it):
    rowan serve --config /etc/rowan.yaml

SIGTERM and SIGINT end it after the requests in hand are answered, a second one at once; SIGHUP reads the certificate anew.
`;

/** Resolves at the first SIGTERM or SIGINT; a second one ends the process. */
function stopSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    const stop = (signal: NodeJS.Signals): void => {
      for (const name of ['SIGTERM', 'SIGINT'] as const) {
        process.off(name, stop);
        process.once(name, () => process.exit(1));
      }
      resolve(signal);
    };
    for (const name of ['SIGTERM', 'SIGINT'] as const) process.on(name, stop);
  });
}

/** SIGHUP: the certificate has been replaced. */
function renewAtHangup(server: RowanServer, log: Logger): void {
  process.on('SIGHUP', () => {
    server.renewCertificate().then(
      (renewed) => log.info(renewed ? 'the certificate was read anew' : 'SIGHUP: there is no certificate to read anew'),
      (error: Error) => log.error(`the certificate could not be read anew, the old one stays: ${error.message}`),
    );
  });
}

/** Serves until a signal ends it. `onReady` runs once, when every listener listens. */
export async function serve(
  settings: Settings,
  onReady: (urls: readonly string[], suffixes: string) => void,
): Promise<void> {
  // Loaded here, so that the other commands start without what only a server needs.
  const [{ RowanServer }, { createLog }] = await Promise.all([import('../../server/server.js'), import('../log.js')]);
  const log = createLog(settings.config);
  const directory = await openDirectory(settings);
  const server = new RowanServer(directory.partition, settings.config, log);
  const maintenance = new Maintenance(directory.partition, settings.config, log);
  try {
    const stopped = stopSignal();
    renewAtHangup(server, log);
    const urls = await server.listen();
    onReady(urls, directory.partition.settings.suffixes.join(' '));
    maintenance.start();
    log.info({ signal: await stopped }, 'stopping');
  } finally {
    await server.close();
    await maintenance.stop();
    await directory.close();
  }
}

export function addServe(program: Command): void {
  addServerOptions(directoryCommand(program, 'serve', 'serve the directory to LDAP clients'))
    .addHelpText('after', EXAMPLES)
    .action((_options: object, command: Command) =>
      serve(settingsOf(command), (urls, suffixes) => {
        process.stdout.write(`rowan ready: ${urls.join(' ')} pid ${process.pid} suffixes ${suffixes}\n`);
      }),
    );
}
