export type { CheckedAttribute, CheckOptions } from './entry-check.js';
export { SchemaError } from './errors.js';
export { type NisSchema, Schema, type SchemaOptions } from './schema.js';
export type { SchemaAttribute } from './subschema.js';
export type * from './types.js';
