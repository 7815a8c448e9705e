export type { CheckedAttribute, CheckOptions } from './entry-check.js';
export type { SchemaFile } from './files.js';
export { Schema, type SchemaOptions } from './schema.js';
export { SchemaError } from './schema-error.js';
export type * from './schema-types.js';
export { filesDifference, type NisSchema, type SchemaSource } from './source.js';
export type { SchemaAttribute } from './subschema.js';
