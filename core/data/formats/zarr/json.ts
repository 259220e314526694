// The JSON of Zarr's metadata as Python writes it: with NaN and Infinity, and whole numbers of 64 bits.

export type ZarrJson = null | boolean | number | bigint | string | readonly ZarrJson[] | JsonObject;

export interface JsonObject {
  readonly [key: string]: ZarrJson;
}

/** Consolidated metadata of thousands of arrays have some megabytes. */
export const MOST_METADATA = 64 * 2 ** 20;

export const isJsonObject = (value: ZarrJson | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);
