import type { Random } from '../../partition/fixture.js';
import type { Step } from './world.js';

/** One run of what is explored, from its start. */
export interface Run {
  /** What may be next, the usual one first; none where it is over. */
  steps(): readonly Step[];
  take(step: Step): Promise<void>;
  state(): string;
  /** Looks at what is left; throws what is wrong. */
  end(): Promise<void>;
  /** What happened, for people. */
  readonly trace: readonly string[];
}

export interface Explored {
  readonly runs: number;
  readonly states: number;
  /** Whether every state was seen. */
  readonly isWhole: boolean;
}

/**
 * Every way in which a run can go: each begins anew and takes the steps that lead to a state where another way was
 * left, one at random. States that were seen are not gone through again. `mostRuns` bounds it.
 */
export async function explore(
  begin: () => Promise<Run>,
  mostRuns: number,
  mostSteps: number,
  random: Random,
): Promise<Explored> {
  const seen = new Set<string>();
  const left: number[][] = [[]];
  let runs = 0;
  for (; left.length > 0 && runs < mostRuns; runs++) {
    const [path] = left.splice(random.int(left.length), 1) as [number[]];
    const run = await begin();
    try {
      for (const index of path) await run.take(run.steps()[index]!);
      await goOn(run, path, seen, left, mostSteps);
    } catch (error) {
      if (error instanceof Error) error.message = `${error.message}\n${run.trace.join('\n')}`;
      throw error;
    }
  }
  return { runs, states: seen.size, isWhole: left.length === 0 };
}

/** To its end, or to a state that was seen. */
async function goOn(run: Run, path: number[], seen: Set<string>, left: number[][], mostSteps: number): Promise<void> {
  for (let steps = run.steps(); steps.length > 0; steps = run.steps()) {
    const state = run.state();
    if (seen.has(state)) return;
    seen.add(state);
    for (let index = steps.length; --index > 0; ) left.push([...path, index]);
    path.push(0);
    if (path.length > mostSteps) throw new Error(`not at its end after ${mostSteps} steps`);
    await run.take(steps[0]!);
  }
  await run.end();
}
