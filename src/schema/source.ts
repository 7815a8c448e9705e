import { readSchemaFolders, type SchemaFile, shortName } from './files.js';
import { SchemaError } from './schema-error.js';

export type NisSchema = 'rfc2307' | 'rfc2307bis';

/** The options and operator's files of a schema, which a directory stores. Lacks the built-in definitions. */
export interface SchemaSource {
  readonly nis: NisSchema;
  /** Files of the operator, in reading order. */
  readonly files: readonly SchemaFile[];
}

/** Maximum number of characters in all files of the operator. The files are stored in one cell. */
const MAX_TEXT = 4 * 1024 * 1024;

/** Replaces paths of files by file names. Throws SchemaError if the files together are too long to be stored. */
export function toStorableSource({ nis, files }: SchemaSource): SchemaSource {
  const length = files.reduce((sum, file) => sum + file.text.length, 0);
  if (length > MAX_TEXT) {
    throw new SchemaError(`schema files of ${length} characters; all of them together may have ${MAX_TEXT}`);
  }
  return { nis, files: files.map(({ name, text }) => ({ name: shortName(name), text })) };
}

/** Describes the first difference between stored files and files in the folders; undefined if there is none. */
export function filesDifference(storedFiles: readonly SchemaFile[], folders: readonly string[]): string | undefined {
  const givenFiles = readSchemaFolders(folders).map(({ name, text }) => ({ name: shortName(name), text }));
  for (const file of givenFiles) {
    const sameNameFiles = storedFiles.filter(({ name }) => name === file.name);
    if (sameNameFiles.length === 0) return `the directory has no schema file '${file.name}'`;
    if (!sameNameFiles.some(({ text }) => text === file.text))
      return `the directory's schema file '${file.name}' has another text`;
  }
  const missingFile = storedFiles.find(({ name }) => !givenFiles.some((file) => file.name === name));
  if (missingFile) return `the directory has a schema file '${missingFile.name}' besides`;
  const differs =
    storedFiles.length !== givenFiles.length || storedFiles.some(({ name }, i) => name !== givenFiles[i]!.name);
  return differs ? "the directory's schema files stand in another order" : undefined;
}
