// The footers, page headers, delta encodings and lists of Parquet; pages of numbers are read by our own code.
export { parquetMetadata } from "npm:hyparquet@1.31.5/src/metadata.js";
export { parquetHeader, readColumn } from "npm:hyparquet@1.31.5/src/column.js";
export { getSchemaPath } from "npm:hyparquet@1.31.5/src/schema.js";
export { deltaBinaryUnpack } from "npm:hyparquet@1.31.5/src/delta.js";
export type { ColumnMetaData, FileMetaData, PageHeader, SchemaElement } from "npm:hyparquet@1.31.5";
