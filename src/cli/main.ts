import { VERSION } from '../server/words/version.js';

// Runs before other modules load: their stack traces then name the sources, at some cost in start time.
if (process.env.ROWAN_DEBUG === '1') process.setSourceMapsEnabled(true);

const [argument] = process.argv.slice(2);
if (process.argv.length === 3 && (argument === '--version' || argument === '-V')) process.stdout.write(`${VERSION}\n`);
else await (await import('./program.js')).run();
