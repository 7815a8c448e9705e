/** How many times the length of its own a test takes under `npm run soak`; 0 in `npm test`. */
const soak = Number(process.env.ROWAN_SOAK ?? 0);

/** Whether `npm run soak` runs the tests: those that take longer than one wants to wait. */
export const inSoak = soak > 0;

/** How much a test does: `quick` in `npm test`, `long` (times `--times`) in `npm run soak`. */
export function rounds(quick: number, long: number): number {
  return inSoak ? long * soak : quick;
}

/** A test that `npm run soak` alone runs. */
export function soakTest(title: string, test: (this: Mocha.Context) => Promise<void>): void {
  if (inSoak) it(title, test);
}
