/** An error in a schema file or in the options of `Schema.load`. `message` is `file:line: what; remedy`. */
export class SchemaError extends Error {
  override readonly name = 'SchemaError';
  /** Path of the file; '' if the error is not in a file. */
  readonly file: string;
  /** Line of the value's beginning, from 1; 0 if unknown. */
  readonly line: number;

  constructor(message: string, place?: { readonly file: string; readonly line: number }) {
    super(place ? `${place.file}:${place.line}: ${message}` : message);
    this.file = place?.file ?? '';
    this.line = place?.line ?? 0;
  }
}
