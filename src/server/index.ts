/** The LDAP server over a partition. */
export type { MountableServer } from './mount/ldapjs-objects.js';
export { mount } from './mount/mount.js';
export { RowanServer } from './server.js';
