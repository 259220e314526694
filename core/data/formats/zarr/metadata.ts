// The metadata of one Zarr array, of version 2 or 3, become what its chunks are read by, or a reason why not.
import { type DType, dtypeBytes } from "../../../../ffi/dtype.ts";
import { elementOf, NUMPY_TYPES, product } from "../../arrays/numbers.ts";
import { type Codec, CODEC_NAMES, type CodecName, PACKERS, type StoredArray } from "./chunk_files.ts";
import { isJsonObject, type JsonObject, type ZarrJson } from "./json.ts";

export interface ArrayFacts {
  readonly dtype: DType;
  readonly stored: StoredArray;
  readonly dimensions: readonly (string | null)[] | null;
  /** Null where the metadata name none. */
  readonly fill: number | bigint | null;
  readonly version: 2 | 3;
}

/** The reason follows the array's name. */
export class Unusable extends Error {}

function unusable(reason: string): never {
  throw new Unusable(reason);
}

const damaged = (what: string): never => unusable(`has damaged metadata (${what})`);

/** Bytes of a chunk, at most: Blosc has the same limit. */
const MOST_BYTES = 2 ** 31 - 1, MOST_ELEMENTS = 2 ** 50, MOST_DIMENSIONS = 32;

const AGAIN = `: write the store again, python -c "import xarray as x; ` +
  `x.open_zarr('OLD').drop_encoding().to_zarr('NEW')"`;

export function arrayOfVersion2(array: JsonObject, attributes: JsonObject): ArrayFacts {
  const { dtype, bigEndian } = typeOfVersion2(array.dtype);
  const shape = sizes(array.shape, "shape", 0), chunk = sizes(array.chunks, "chunks", 1);
  const codecs = [...list(array.filters), ...list(array.compressor === null ? [] : [array.compressor])]
    .flatMap((codec) => codecOf(codec, "id", dtype));
  const separator = array.dimension_separator ?? ".";
  if (separator !== "." && separator !== "/") damaged(`dimension_separator is ${JSON.stringify(separator)}`);
  if (array.order !== "C" && array.order !== "F") damaged(`order is ${JSON.stringify(array.order ?? null)}`);
  const turned = array.order === "F" && shape.length > 1;
  const width = dtypeBytes(dtype), fill = fillOf(array.fill_value ?? null, dtype);
  return {
    dtype,
    version: 2,
    fill,
    dimensions: names(attributes._ARRAY_DIMENSIONS, shape.length),
    stored: checked({
      ...{ shape, chunk, width, prefix: "", separator: separator as string, shard: null },
      coding: {
        codecs,
        order: turned ? shape.map((_, d) => shape.length - 1 - d) : null,
        swapped: bigEndian && width > 1,
      },
      fill: elementOf(fill ?? 0, dtype),
    }),
  };
}

export function arrayOfVersion3(array: JsonObject): ArrayFacts {
  const dtype = typeOfVersion3(array.data_type), width = dtypeBytes(dtype);
  const shape = sizes(array.shape, "shape", 0);
  const grid = member(array, "chunk_grid"), keys = member(array, "chunk_key_encoding");
  if (grid.name !== "regular") unusable(`has a chunk grid of the kind ${quoted(grid.name)}${AGAIN}`);
  const chunk = sizes(member(grid, "configuration").chunk_shape, "chunk_shape", 1);
  const isDefault = keys.name === "default";
  if (!isDefault && keys.name !== "v2") unusable(`has chunk keys of the kind ${quoted(keys.name)}${AGAIN}`);
  const { separator = isDefault ? "/" : "." } = isJsonObject(keys.configuration) ? keys.configuration : {};
  if (separator !== "." && separator !== "/") damaged(`separator is ${quoted(separator)}`);
  if (list(array.storage_transformers).length > 0) unusable(`has storage transformers${AGAIN}`);
  const fill = fillOf(array.fill_value ?? null, dtype);
  return {
    dtype,
    version: 3,
    fill,
    dimensions: names(array.dimension_names, shape.length),
    stored: checked({
      ...{ shape, width, prefix: isDefault ? `c${separator}` : "", separator: separator as string },
      ...codingOf(list(array.codecs), chunk, dtype),
      fill: elementOf(fill ?? 0, dtype),
    }),
  };
}

/** Codecs of version 3: turned first, then made bytes, then packed; or cut into the chunks of a shard. */
function codingOf(
  codecs: readonly ZarrJson[],
  chunk: readonly number[],
  dtype: DType,
  inside = false,
): Pick<StoredArray, "chunk" | "coding" | "shard"> {
  const first = named(codecs[0] ?? null);
  if (first.name === "sharding_indexed") {
    if (inside || codecs.length > 1) unusable(`has shards that are packed or nested${AGAIN}`);
    const { configuration } = first;
    const inner = sizes(configuration.chunk_shape, "chunk_shape", 1);
    if (inner.length !== chunk.length || inner.some((size, d) => chunk[d] % size !== 0)) {
      damaged(`shards of [${chunk}] with chunks of [${inner}]`);
    }
    const index = list(configuration.index_codecs).map(named);
    const [bytes, sum, ...more] = index.map(({ name }) => name);
    const endian = index[0]?.configuration.endian;
    if (bytes !== "bytes" || endian === "big" || (sum && sum !== "crc32c") || more.length > 0) {
      unusable(`has shards whose index is packed${AGAIN}`);
    }
    const { index_location = "end" } = configuration;
    const shard = {
      chunks: chunk.map((size, d) => size / inner[d]),
      indexFirst: index_location === "start",
      checked: sum === "crc32c",
    };
    if (product(shard.chunks) > MOST_CHUNKS) damaged(`shards of ${product(shard.chunks)} chunks`);
    return { ...codingOf(list(configuration.codecs), inner, dtype, true), shard };
  }
  let order: readonly number[] | null = null, swapped = false, seen = false;
  const packed: Codec[] = [];
  for (const codec of codecs) {
    const { name, configuration } = named(codec);
    if (name === "transpose" && !seen) {
      const next = orderOf(configuration.order, chunk.length);
      order = order ? next.map((d) => order![d]) : next;
    } else if (name === "bytes" && !seen) {
      seen = true;
      swapped = configuration.endian === "big" && dtypeBytes(dtype) > 1;
    } else if (seen) packed.push(...codecOf(codec, "name", dtype));
    else unusable(`is written by "${name}", which can't be read here${AGAIN}`);
  }
  if (!seen) damaged("no codec makes bytes of it");
  const turned = order?.some((d, i) => d !== i) ? order : null;
  return { chunk, shard: null, coding: { codecs: packed, order: turned, swapped } };
}

const MOST_CHUNKS = 2 ** 22;

function orderOf(order: ZarrJson | undefined, rank: number): readonly number[] {
  const straight = Array.from({ length: rank }, (_, d) => d);
  if (order === "C") return straight;
  if (order === "F") return straight.toReversed();
  const found = list(order).map(Number);
  if (found.toSorted((a, b) => a - b).join() !== straight.join()) {
    damaged(`the order of transpose is ${quoted(order)}`);
  }
  return found;
}

/** Codecs that only round while they write have nothing to undo. */
const ROUNDING = ["bitround", "quantize"];

function codecOf(codec: ZarrJson, key: "id" | "name", dtype: DType): Codec[] {
  const settings = isJsonObject(codec) ? codec : { [key]: codec };
  const written = settings[key];
  if (typeof written !== "string") damaged("a codec without a name");
  const name = (written as string).replace(/^numcodecs\./, "");
  const { configuration } = settings, about = isJsonObject(configuration) ? configuration : settings;
  if (ROUNDING.includes(name) && /^f/.test(dtype)) return [];
  if (!CODEC_NAMES.includes(name as CodecName)) {
    unusable(`is packed by "${name}", which can't be read here${AGAIN}`);
  }
  const { elementsize = 4 } = about;
  if (name === "shuffle" && !(typeof elementsize === "number" && elementsize >= 1 && elementsize <= 255)) {
    damaged(`elementsize is ${quoted(elementsize)}`);
  }
  return [{ id: name as CodecName, width: name === "shuffle" ? elementsize as number : 1 }];
}

function checked(array: StoredArray): StoredArray {
  const { shape, chunk, width, coding: { codecs } } = array;
  if (shape.length !== chunk.length) damaged(`a shape of [${shape}] in chunks of [${chunk}]`);
  if (shape.length > MOST_DIMENSIONS || product(shape) > MOST_ELEMENTS) damaged(`a shape of [${shape}]`);
  if (product(chunk) * width > MOST_BYTES) unusable(`has chunks of more than 2 GiB${AGAIN}`);
  const packers = codecs.filter(({ id }) => PACKERS.includes(id)), last = packers.length > 0;
  if (packers.length > 1) {
    unusable(`is packed twice (${packers.map(({ id }) => id).join(", then ")})${AGAIN}`);
  }
  // The size of a packed chunk is not known, so only a checksum may follow.
  const behind = last ? codecs.slice(codecs.indexOf(packers[0]) + 1) : [];
  if (behind.some(({ id }) => id !== "crc32c")) unusable(`is changed after it was packed${AGAIN}`);
  return array;
}

const list = (value: ZarrJson | undefined): readonly ZarrJson[] => Array.isArray(value) ? value : [];

const quoted = (value: ZarrJson | undefined): string =>
  (typeof value === "string" ? JSON.stringify(value) : String(value)).slice(0, 60);

function member(object: JsonObject, key: string): JsonObject {
  const found = object[key];
  return isJsonObject(found) ? found : damaged(`no ${key}`);
}

/** An extension without a configuration may be its name alone. */
function named(value: ZarrJson): { readonly name: string; readonly configuration: JsonObject } {
  const { name, configuration } = isJsonObject(value) ? value : { name: value, configuration: undefined };
  if (typeof name !== "string") damaged("a codec without a name");
  return { name: name as string, configuration: isJsonObject(configuration) ? configuration : {} };
}

function sizes(value: ZarrJson | undefined, key: string, least: number): number[] {
  const found = Array.isArray(value) ? value as readonly ZarrJson[] : damaged(`no ${key}`);
  if (found.every((size) => Number.isSafeInteger(size) && (size as number) >= least)) {
    return found as number[];
  }
  return damaged(`${key} is [${found.map(quoted).join(", ").slice(0, 100)}]`);
}

function names(value: ZarrJson | undefined, rank: number): readonly (string | null)[] | null {
  if (!Array.isArray(value) || value.length !== rank) return null;
  return value.map((name) => typeof name === "string" && name !== "" ? name : null);
}

const OTHERS: Readonly<Record<string, string>> = {
  O: "holds Python objects: save it as numbers, z[:].astype('f4')",
  U: "holds text: save numbers in its place",
  S: "holds text: save numbers in its place",
  c: "holds complex numbers: save their real and imaginary parts, z[:].real and z[:].imag",
  M: "holds dates: save them as numbers, z[:].astype('i8')",
  m: "holds spans of time: save them as numbers, z[:].astype('i8')",
};

function typeOfVersion2(value: ZarrJson | undefined): { dtype: DType; bigEndian: boolean } {
  if (Array.isArray(value)) unusable("has records with named fields: save each field as an array, z['name']");
  if (typeof value !== "string") return damaged(`dtype is ${quoted(value)}`);
  const type = value.replace(/^[<>|=]/, "");
  if (Object.hasOwn(NUMPY_TYPES, type)) return { dtype: NUMPY_TYPES[type], bigEndian: value[0] === ">" };
  return unusable(OTHERS[type[0]] ?? `is of the type ${quoted(value)}: save it as z[:].astype('f4')`);
}

const LONG: readonly [RegExp, string][] = [
  [/^complex/, "c"],
  [/string|utf/, "U"],
  [/^(numpy\.)?datetime/, "M"],
  [/^(numpy\.)?timedelta/, "m"],
  [/bytes/, "S"],
];

function typeOfVersion3(value: ZarrJson | undefined): DType {
  const name = isJsonObject(value) ? value.name : value;
  if (typeof name !== "string") return damaged(`data_type is ${quoted(value)}`);
  if (name === "bool") return "bool";
  const [, kind, bits] = /^(int|uint|float)(8|16|32|64)$/.exec(name) ?? [];
  const dtype = NUMPY_TYPES[`${kind?.[0]}${Number(bits) / 8}`];
  if (dtype) return dtype;
  const known = LONG.find(([pattern]) => pattern.test(name));
  return unusable(known ? OTHERS[known[1]] : `is of the type ${quoted(name)}: save it as z[:].astype('f4')`);
}

const WORDS: Readonly<Record<string, number>> = { NaN, Infinity, "-Infinity": -Infinity };

function fillOf(value: ZarrJson, dtype: DType): number | bigint | null {
  if (value === null) return null;
  if (typeof value === "boolean") return Number(value);
  if (typeof value === "number" || typeof value === "bigint") return value;
  if (typeof value === "string" && Object.hasOwn(WORDS, value)) return WORDS[value];
  // The bits of a float, the highest first.
  if (
    typeof value === "string" && /^0x[0-9a-f]+$/i.test(value) && value.length === 2 + 2 * dtypeBytes(dtype)
  ) {
    const view = new DataView(new ArrayBuffer(8));
    view.setBigUint64(0, BigInt(value) << BigInt(64 - 8 * dtypeBytes(dtype)));
    if (dtype === "f64") return view.getFloat64(0);
    if (dtype === "f32") return view.getFloat32(0);
    if (dtype === "f16") return view.getFloat16(0);
  }
  return damaged(`fill_value is ${quoted(value)}`);
}
