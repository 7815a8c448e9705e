/** What 389 Directory Server notes of a value: it, or its attribute, is deleted; which change did what to it. */
const DELETED = /^deleted(?:attribute)?$/i;
const CHANGE = /^(?:ad|vu|vd|md)csn-/i;

export interface StateOptions {
  /** The attribute description without them. */
  readonly text: string;
  /** The values are no longer there: the other server kept them to tell its replicas. */
  readonly deleted: boolean;
}

/** What the state options of an attribute description say; undefined where it has none. */
export function stateOptionsOf(text: string): StateOptions | undefined {
  if (!text.includes(';')) return undefined;
  const [name, ...options] = text.split(';');
  const kept = options.filter((option) => !DELETED.test(option) && !CHANGE.test(option));
  if (kept.length === options.length) return undefined;
  return { text: [name, ...kept].join(';'), deleted: options.some((option) => DELETED.test(option)) };
}
