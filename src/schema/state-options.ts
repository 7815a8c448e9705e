/** State options of 389 Directory Server: a deleted value or attribute, and change sequence numbers. */
const DELETED = /^deleted(?:attribute)?$/i;
const CHANGE = /^(?:ad|vu|vd|md)csn-/i;

export interface StateOptions {
  /** The attribute description without the state options. */
  readonly text: string;
  /** Whether the values are deleted. The other server keeps deleted values for its replicas. */
  readonly deleted: boolean;
}

/** Parses state options in an attribute description; undefined if there are none. */
export function stateOptionsOf(text: string): StateOptions | undefined {
  if (!text.includes(';')) return undefined;
  const [name, ...options] = text.split(';');
  const kept = options.filter((option) => !DELETED.test(option) && !CHANGE.test(option));
  if (kept.length === options.length) return undefined;
  return { text: [name, ...kept].join(';'), deleted: options.some((option) => DELETED.test(option)) };
}
