// The footers, page headers and delta encodings of Parquet; pages of numbers are read by our own code.
export { parquetMetadata } from "npm:hyparquet@1.31.5/src/metadata.js";
export { parquetHeader } from "npm:hyparquet@1.31.5/src/column.js";
export { deltaBinaryUnpack } from "npm:hyparquet@1.31.5/src/delta.js";
export type { ColumnMetaData, FileMetaData, PageHeader, SchemaElement } from "npm:hyparquet@1.31.5";
