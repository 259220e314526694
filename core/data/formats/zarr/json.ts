// The JSON of Zarr's metadata as Python writes it: with NaN and Infinity, and whole numbers of 64 bits.
import { UserError } from "../../../base/errors.ts";

export type ZarrJson = null | boolean | number | bigint | string | readonly ZarrJson[] | JsonObject;

export interface JsonObject {
  readonly [key: string]: ZarrJson;
}

/** Consolidated metadata of thousands of arrays have some megabytes. */
export const MOST_METADATA = 64 * 2 ** 20;

export const isJsonObject = (value: ZarrJson | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** A text says what is wrong with the file. */
export function readJson(path: string, bytes: Uint8Array | string): JsonObject {
  if (typeof bytes === "string") throw new UserError("data", `${path} ${bytes}: it is damaged.`);
  const text = new TextDecoder().decode(bytes);
  const value = parse(text) ?? parse(withoutOddNumbers(text));
  if (isJsonObject(value)) return value;
  throw new UserError(
    "data",
    `${path} is damaged: it is no JSON. Copy the store again from where it came from.`,
  );
}

function parse(text: string): ZarrJson | undefined {
  try {
    return JSON.parse(text, exact as (this: unknown, key: string, value: unknown) => unknown);
  } catch {
    return undefined;
  }
}

/** A double does not hold every whole number of 64 bits. */
const exact = (_: string, value: ZarrJson, { source }: { source?: string } = {}): ZarrJson =>
  typeof value === "number" && !Number.isSafeInteger(value) && source && /^-?\d+$/.test(source)
    ? BigInt(source)
    : value;

/** Python writes numbers that JSON lacks as words; they become texts, as in Zarr's fill values. */
const withoutOddNumbers = (text: string): string =>
  text.replace(/"(?:[^"\\]|\\.)*"|-?Infinity|NaN/g, (found) => found[0] === '"' ? found : `"${found}"`);
