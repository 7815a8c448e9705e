import { start } from './directory.js';

/** A server for a process with few file descriptors; prints its port. */
const { port } = await start({}, 1);
console.log(port);
