/**
 * ldapjs's server alone: its client takes as long to load. The types of the package leave out what is used of it here.
 */
declare module 'ldapjs/lib/server.js' {
  import type { EventEmitter } from 'node:events';
  import type { Server as NetServer } from 'node:net';

  export default class Server extends EventEmitter {
    readonly server: NetServer;
    /** Options it does not know reach `tls.createServer`. */
    constructor(options: object);
  }
}
