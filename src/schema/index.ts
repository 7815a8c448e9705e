export type { CheckedAttribute, CheckOptions } from './entry-check.js';
export { SchemaError } from './errors.js';
export type { SchemaFile } from './files.js';
export { Schema, type SchemaOptions } from './schema.js';
export { filesDifference, type NisSchema, type SchemaSource } from './source.js';
export type { SchemaAttribute } from './subschema.js';
export type * from './types.js';
