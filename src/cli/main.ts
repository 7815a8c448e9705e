import { VERSION } from '../server/words/version.js';

// Before anything else is loaded: what is loaded later has stacks that name the sources, which costs some of the start.
if (process.env.ROWAN_DEBUG === '1') process.setSourceMapsEnabled(true);

const [only] = process.argv.slice(2);
if (process.argv.length === 3 && (only === '--version' || only === '-V')) process.stdout.write(`${VERSION}\n`);
else await (await import('./program.js')).run();
