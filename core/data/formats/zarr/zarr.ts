// Arrays of Zarr stores, of versions 2 and 3, become variables with named dimensions.
import { isFolder } from "../../../base/files.ts";
import { basename } from "../../../../deps/path.ts";
import { UserError } from "../../../base/errors.ts";
import { checkFreeMemory } from "../../../base/memory.ts";
import { product } from "../../arrays/numbers.ts";
import { unreachable, type Variable } from "../../arrays/table.ts";
import {
  type Content,
  joinedContent,
  variableColumns,
  type VariablesFile,
  variablesReader,
  withAuxiliary,
} from "../../tables/gridded.ts";
import { filesBelow, filesNamed, holds, isUrl } from "../../arrays/paths.ts";
import { isStoreFolder, ZARR_ENDINGS } from "./format.ts";
import { readStore, type StoreRows, storeRows } from "./chunk_files.ts";
import type { JsonObject, ZarrJson } from "./json.ts";
import { type ArrayFacts, arrayOfVersion2, arrayOfVersion3, Unusable } from "./metadata.ts";
import { type FoundArray, isStore, readStoreAt } from "./store.ts";
import { openStoreFiles } from "./store_files.ts";
import type { StoreFiles } from "./server.ts";

export const reader = variablesReader(withZarr);

/** The store is open while `use` runs. */
function withStore<R>(path: string, use: (files: StoreFiles) => R): R {
  const files = openStoreFiles(path);
  try {
    return use(files);
  } finally {
    files.close();
  }
}

/** Null means one store. */
const manyStores = (path: string): readonly string[] | null =>
  filesNamed(path, ZARR_ENDINGS) ??
    (isFolder(path) && !isStoreFolder(path) && holds(path, ZARR_ENDINGS)
      ? filesBelow(path, ZARR_ENDINGS)
      : null);

export function withZarr<R>(path: string, use: (content: Content) => R, along = ""): R {
  const stores = manyStores(path);
  // A server's connection lasts as long as one of its stores is open.
  return withStore(stores?.[0] ?? path, () => {
    const found = (stores ?? [path]).map(zarrVariables), [{ variables, isNetcdf }] = found, noun = "array";
    if (stores) {
      const auxiliary = found.map((one) => ({ ...one, variables: withAuxiliary(one.variables) }));
      return use(joinedContent(path, auxiliary, { kind: "Zarr stores", noun, along, fillsByDefault: false }));
    }
    const columns = variableColumns(variables, isNetcdf, false);
    return use({ path, kind: "Zarr store", noun, isNetcdf, columns });
  });
}

/** Dimensions have names as xarray writes them, or none. */
export const zarrVariables = (path: string): VariablesFile =>
  withStore(path, (files) => {
    if (!isStore(files)) throw noStore(path);
    const { arrays, groups } = readStoreAt(path, files);
    const coordinates = new Set(
      groups.flatMap(({ coordinates: text }) => typeof text === "string" ? text.split(" ") : []),
    );
    const found = arrays.map((array) => ({ array, facts: factsOf(array) }));
    const isNetcdf = found.some(({ facts }) => typeof facts !== "string" && facts.dimensions !== null);
    const within = groupedDimensions(found);
    const variables = found.map(({ array, facts }) =>
      variableOf(path, array, facts, { coordinates, within })
    );
    return { path, variables, isNetcdf };
  });

const noStore = (path: string) =>
  new UserError(
    "data",
    `${path} is no Zarr store: it has none of zarr.json, .zgroup, .zarray and .zmetadata in it. ` +
      (isUrl(path)
        ? "Check data.data_path (--data-path), which names the store's own folder."
        : "Check that it was copied as a whole, hidden files too."),
  );

function factsOf({ version, array, attributes }: FoundArray): ArrayFacts | string {
  try {
    return version === 2 ? arrayOfVersion2(array, attributes) : arrayOfVersion3(array);
  } catch (error) {
    if (error instanceof Unusable) return error.message;
    throw error;
  }
}

/**
 * A dimension has the name of its coordinate, as in NetCDF's groups: that of the array's own group, or else of the
 * nearest one around it.
 */
function groupedDimensions(
  found: readonly { readonly array: FoundArray; readonly facts: ArrayFacts | string }[],
): (name: string, dimension: string) => string {
  const own = new Set(found.flatMap(({ array: { name }, facts }) => {
    const last = name.slice(name.lastIndexOf("/") + 1);
    return typeof facts !== "string" && facts.dimensions?.join("/") === last ? [name] : [];
  }));
  return (name, dimension) => {
    for (let at = name.lastIndexOf("/"); at > 0; at = name.lastIndexOf("/", at - 1)) {
      const inGroup = `${name.slice(0, at)}/${dimension}`;
      if (own.has(inGroup)) return inGroup;
    }
    return dimension;
  };
}

interface Described {
  /** Attributes name these as coordinates. */
  readonly coordinates: ReadonlySet<string>;
  readonly within: ReturnType<typeof groupedDimensions>;
}

function variableOf(
  path: string,
  found: FoundArray,
  facts: ArrayFacts | string,
  { coordinates, within }: Described,
): Variable {
  const name = found.name || basename(path), own = name.slice(name.lastIndexOf("/") + 1);
  if (typeof facts === "string") {
    const none = { shape: [], dimensions: [], dtype: null, attributes: new Map() };
    return { ...none, name, auxiliary: true, unusable: facts, read: unreachable, rows: unreachable };
  }
  const { stored, dtype } = facts, { shape } = stored;
  const dimensions = shape.map((size, d) => {
    const given = facts.dimensions?.[d];
    return given ? within(name, given) : `size ${size}`;
  });
  const rows = (lead: number): StoreRows => {
    checkFreeMemory(
      `${path}: a chunk of the array "${name}"`,
      product(stored.chunk) * stored.width,
      null,
      "Write it again in smaller chunks.",
    );
    const { size, changed } = withStore(path, (files) => files.markOf(found.metadata));
    return {
      ...stored,
      layout: "format",
      module: storeRows,
      access: isUrl(path) ? "alone" : "files",
      lead,
      file: { path: found.name === "" ? path : `${path}/${found.name}`, size, changed },
      store: path,
      inside: found.name === "" ? "" : `${found.name}/`,
      metadata: found.metadata,
    };
  };
  return {
    name,
    shape,
    dimensions,
    dtype,
    attributes: attributesOf(found.attributes, facts),
    auxiliary: dimensions.join() === name || coordinates.has(own),
    read() {
      const what = `${path}: the array "${name}"`;
      checkFreeMemory(what, product(shape) * stored.width, null, "Choose fewer with --features.");
      return readStore(rows(0));
    },
    rows,
  };
}

const WORDS: Readonly<Record<string, number>> = { NaN, Infinity, "-Infinity": -Infinity };

function attributesOf(
  written: JsonObject,
  { version, fill, dimensions, dtype }: ArrayFacts,
): Variable["attributes"] {
  const found = new Map<string, readonly number[] | string>();
  for (const [name, value] of Object.entries(written)) {
    const numbers = (Array.isArray(value) ? value : [value]).map((one) => numberOf(name, one));
    if (numbers.every((number) => number !== null)) found.set(name, numbers);
    else if (typeof value === "string") found.set(name, value);
  }
  const text = written._FillValue;
  if (version === 3 && typeof text === "string" && !Object.hasOwn(WORDS, text)) {
    // xarray writes fills of floats as the base64 of a double.
    const number = /^f/.test(dtype) ? doubleOf(text) : null;
    if (number === null) found.delete("_FillValue");
    else found.set("_FillValue", [number]);
  }
  // In version 2 xarray's missing value is the fill of chunks; an array without its dimensions is not xarray's.
  if (version === 2 && dimensions && fill !== null && !found.has("_FillValue")) {
    found.set("_FillValue", [Number(fill)]);
  }
  return found;
}

const NUMBERS = /^(_FillValue|missing_value|valid_min|valid_max|valid_range|scale_factor|add_offset)$/;

const numberOf = (name: string, value: ZarrJson): number | null =>
  typeof value === "number" || typeof value === "bigint"
    ? Number(value)
    : typeof value === "string" && NUMBERS.test(name) && Object.hasOwn(WORDS, value)
    ? WORDS[value]
    : null;

function doubleOf(text: string): number | null {
  try {
    const bytes = Uint8Array.fromBase64(text);
    return bytes.length === 8 ? new DataView(bytes.buffer).getFloat64(0, true) : null;
  } catch {
    return null;
  }
}
