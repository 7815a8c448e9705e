/** A mistake in a schema file, or in what was asked of `Schema.load`. `message` is `file:line: what; remedy`. */
export class SchemaError extends Error {
  override readonly name = 'SchemaError';
  /** Path of the file, or '' when the mistake is in no file. */
  readonly file: string;
  /** Line (1 = first) on which the value begins; 0 when unknown. */
  readonly line: number;

  constructor(message: string, place?: { readonly file: string; readonly line: number }) {
    super(place ? `${place.file}:${place.line}: ${message}` : message);
    this.file = place?.file ?? '';
    this.line = place?.line ?? 0;
  }
}
