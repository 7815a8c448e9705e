import type { Logger } from 'pino';
import type { RowanServer } from '../server/server.js';

/** Reloads the certificate after SIGHUP and logs the result. */
export function renewCertificate(server: RowanServer, log: Logger): void {
  server.renewCertificate().then(
    (isRenewed) => log.info(isRenewed ? 'the certificate was reloaded' : 'there is no certificate any more'),
    (error: Error) => log.error(`the certificate could not be reloaded, the old one stays: ${error.message}`),
  );
}
