import { readSchemaFolders, type SchemaFile, shortName } from './files.js';
import { SchemaError } from './schema-error.js';

export type NisSchema = 'rfc2307' | 'rfc2307bis';

/** What a schema has besides the definitions that every directory has: a directory keeps it. */
export interface SchemaSource {
  readonly nis: NisSchema;
  /** The operator's own files, in the order in which they are read. */
  readonly files: readonly SchemaFile[];
}

/** Characters of all the operator's files together: they are kept in one cell of the store. */
const MAX_TEXT = 4 * 1024 * 1024;

/** The source without the folders of its files; throws SchemaError when it is too long to be kept. */
export function storable({ nis, files }: SchemaSource): SchemaSource {
  const length = files.reduce((sum, file) => sum + file.text.length, 0);
  if (length > MAX_TEXT) {
    throw new SchemaError(`schema files of ${length} characters; all of them together may have ${MAX_TEXT}`);
  }
  return { nis, files: files.map(({ name, text }) => ({ name: shortName(name), text })) };
}

/** In what the files of the folders are others than those of a directory; undefined when they are the same. */
export function filesDifference(kept: readonly SchemaFile[], folders: readonly string[]): string | undefined {
  const given = readSchemaFolders(folders).map(({ name, text }) => ({ name: shortName(name), text }));
  for (const file of given) {
    const same = kept.filter(({ name }) => name === file.name);
    if (same.length === 0) return `the directory has no schema file '${file.name}'`;
    if (!same.some(({ text }) => text === file.text))
      return `the directory's schema file '${file.name}' has another text`;
  }
  const more = kept.find(({ name }) => !given.some((file) => file.name === name));
  if (more) return `the directory has a schema file '${more.name}' besides`;
  const differs = kept.length !== given.length || kept.some(({ name }, i) => name !== given[i]!.name);
  return differs ? "the directory's schema files stand in another order" : undefined;
}
