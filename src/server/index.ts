/** The LDAP server over a partition. */
export { mount } from './mount/mount.js';
export { RowanServer } from './server.js';
