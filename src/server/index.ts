/** The LDAP server over a partition. */

export { mount } from './mount/mount.js';
export type { MountableServer } from './mount/reply.js';
export { RowanServer } from './server.js';
