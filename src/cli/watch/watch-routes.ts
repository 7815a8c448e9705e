import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Schema } from '../../schema/index.js';
import type { Answer, OperationFilter, Question } from '../../server/processes/siblings.js';
import { CliError, describeError } from '../exit.js';
import type { Route } from '../http/http-server.js';

/** Interval between two questions to the processes of the server, in milliseconds. */
const POLL_MS = 200;
const MAX_NAME = 64;

type Ask = (question: Question) => Promise<Answer[]>;

/** Routes of the control socket for `rowan tail` and `rowan top`. `ask` asks all processes of the server. */
export function watchRoutes(ask: Ask, schema: Schema): Route[] {
  return [
    {
      method: 'GET',
      path: '/operations',
      handle: ({ query, signal }) => {
        const body = followOperations(ask, readFilter(query, schema), signal);
        return { type: 'application/x-ndjson', body };
      },
    },
    {
      method: 'GET',
      path: '/top',
      handle: async ({ query }) => {
        const answers = await ask({ about: 'top', watcher: (query.get('watcher') ?? '').slice(0, MAX_NAME) });
        return { type: 'application/json', body: JSON.stringify(answers.flatMap(({ top }) => top ?? [])) };
      },
    },
  ];
}

function readFilter(query: URLSearchParams, schema: Schema): OperationFilter {
  const [op, who, client, base, slowerThan] = ['op', 'who', 'client', 'base', 'slowerThan'].map(
    (name) => query.get(name) ?? undefined,
  );
  try {
    if (base !== undefined) schema.parseDn(base);
  } catch (error) {
    throw new CliError(`--base ${base}: ${describeError(error)}`, { cause: error });
  }
  return { op, who, client, base, slowerThanMs: Number(slowerThan ?? 0), isFailed: query.has('failed') };
}

/** Yields an empty line when all processes are watched, and then a line for each wanted operation. */
async function* followOperations(ask: Ask, filter: OperationFilter, signal: AbortSignal): AsyncGenerator<string> {
  const watcher = randomUUID();
  for (let isFirst = true; !signal.aborted; isFirst = false) {
    const operations = (await ask({ about: 'operations', watcher, filter })).flatMap(
      (answer) => answer.operations ?? [],
    );
    const droppedCount = operations.reduce((sum, one) => sum + one.droppedCount, 0);
    // Lines begin with their time.
    let text = operations
      .flatMap(({ lines }) => lines)
      .sort()
      .join('');
    if (droppedCount > 0) text += `${JSON.stringify({ operation: 'DROPPED', lines: droppedCount })}\n`;
    if (isFirst) text = `\n${text}`;
    if (text !== '') yield text;
    await sleep(POLL_MS);
  }
}
