import { start } from './directory.js';

/** A server for a process with few or many file descriptors of its own; prints its port. */
const { port } = await start({}, 1);
console.log(port);
