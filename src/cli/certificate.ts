import type { Logger } from 'pino';
import type { RowanServer } from '../server/server.js';
import { describeError } from './exit.js';

/** Reads the files of the certificate again, and logs the result. `level`: of the line that tells success. */
export function renewCertificate(server: RowanServer, log: Logger, level: 'info' | 'debug' = 'info'): void {
  server.renewCertificate().then(
    (isRenewed) =>
      log[level](isRenewed ? 'the certificate was reloaded from its files' : 'there is no certificate any more'),
    (error: Error) => log.error(`the certificate could not be reloaded, the old one stays: ${describeError(error)}`),
  );
}
