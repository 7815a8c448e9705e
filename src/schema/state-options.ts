/** Matches the state options of 389 Directory Server that mark a deleted value or attribute. */
const DELETED = /^deleted(?:attribute)?$/i;
const CHANGE = /^(?:ad|vu|vd|md)csn-/i;

export interface StateOptions {
  /** The attribute description without the state options. */
  readonly text: string;
  /** Whether the values are deleted. The other server keeps deleted values for its replicas. */
  readonly isDeleted: boolean;
}

/** Parses the state options in an attribute description; undefined if it has none. */
export function parseStateOptions(text: string): StateOptions | undefined {
  if (!text.includes(';')) return undefined;
  const [name, ...options] = text.split(';');
  const keptOptions = options.filter((option) => !DELETED.test(option) && !CHANGE.test(option));
  if (keptOptions.length === options.length) return undefined;
  return { text: [name, ...keptOptions].join(';'), isDeleted: options.some((option) => DELETED.test(option)) };
}
