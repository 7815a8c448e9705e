/** Values that are often there at once, as the partition hands them out. */
export { chain, isPromise, type Maybe } from '../../partition/index.js';
