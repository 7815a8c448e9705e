import { resultName } from '../../ldap/ldap-error.js';
import type { FinishedOperation, Observation } from './observation.js';
import { shownMessage } from './request-description.js';

/** The place in which all copies of `@opentelemetry/api` 1.x keep what a program has registered. */
const REGISTRY = Symbol.for('opentelemetry.js.api.1');
/** Results that are faults of the server, not of the request. */
const FAULTS = new Set(['operationsError', 'busy', 'unavailable', 'other']);

/**
 * Makes an OpenTelemetry span of each operation if the program that runs the server has registered a tracer provider.
 * Returns a function that ends this; undefined: there is no provider.
 */
export async function observeWithSpans(observation: Observation): Promise<(() => void) | undefined> {
  const registry = (globalThis as { [REGISTRY]?: { readonly trace?: unknown } })[REGISTRY];
  if (!registry?.trace) return undefined;
  // Loaded on demand, since the package is optional and few programs trace.
  const { SpanKind, SpanStatusCode, trace } = await import('@opentelemetry/api');
  const tracer = trace.getTracer('rowan-ldap');
  return observation.add({
    onOperation: (operation) => {
      const { op, endedAt, workMs, waitMs, result } = operation;
      const startTime = new Date(endedAt - workMs - waitMs);
      const attributes = spanAttributes(operation);
      const span = tracer.startSpan(`LDAP ${op}`, { kind: SpanKind.SERVER, root: true, startTime, attributes });
      if (FAULTS.has(resultName(result.code)))
        span.setStatus({ code: SpanStatusCode.ERROR, message: shownMessage(result) });
      span.end(new Date(endedAt));
    },
  });
}

/** Attributes without a value are left out. */
function spanAttributes(operation: FinishedOperation): Record<string, string | number | undefined> {
  const { op, address, connectionNumber, result, entryCount, waitMs, search } = operation;
  const { target, scope, filter, oid } = operation.description() ?? {};
  return {
    'ldap.operation': op,
    'ldap.result': resultName(result.code),
    'ldap.target': target,
    'ldap.scope': scope,
    'ldap.filter': filter,
    'ldap.oid': oid,
    'ldap.entries': op === 'search' ? entryCount : undefined,
    'ldap.search.plan': search?.plan,
    'ldap.wait_ms': waitMs,
    'ldap.connection': connectionNumber,
    'client.address': address,
  };
}
