/** Values that are often available without waiting, as the partition returns them. */
export { chain, isPromise, type Maybe } from '../../partition/index.js';
