/** The server of ldapjs without its client, which takes as long to load. The published types lack this module. */
declare module 'ldapjs/lib/server.js' {
  import type { EventEmitter } from 'node:events';
  import type { Server as NetServer } from 'node:net';

  export default class Server extends EventEmitter {
    readonly server: NetServer;
    /** Unknown options are passed to `tls.createServer`. */
    constructor(options: object);
  }
}
