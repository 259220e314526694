// HDF5 datatypes and dataspaces become a data type, text, a dimension, or a reason why a dataset is not used.
import { type ByteSpan, textOfName, unforeseen } from "./bytes.ts";
import type { DType } from "../../../../../ffi/dtype.ts";
import type { Variable } from "../../../arrays/table.ts";

export const INTEGER = 0, FLOAT = 1, TEXT = 3, COMPOUND = 6, ENUM = 8, ROWS = 9;
const KINDS = 11, BITS = 4;

export interface Type {
  readonly kind: number;
  readonly size: number;
  readonly signed: boolean;
  readonly bigEndian: boolean;
  readonly variable: boolean;
  readonly utf8: boolean;
  /** Plain numbers are IEEE 754 floats, or whole numbers that use all their bits. */
  readonly plain: boolean;
  readonly names: ReadonlyMap<string, number> | null;
}

export function readType(span: ByteSpan, nested = false): Type {
  const head = span.u8(), low = span.u8(), middle = span.u8(), high = span.u8(), size = span.u32();
  const kind = head & 15, version = head >> 4;
  if (version < 1 || version > 5 || kind >= KINDS || size === 0) unforeseen("a version of datatypes");
  const other: Type = {
    ...{
      kind,
      size,
      signed: false,
      bigEndian: false,
      variable: false,
      utf8: false,
      plain: false,
      names: null,
    },
  };
  switch (kind) {
    case INTEGER: {
      const whole = span.u16() === 0 && span.u16() === 8 * size;
      return { ...other, signed: (low & 8) !== 0, bigEndian: (low & 1) !== 0, plain: whole };
    }
    case FLOAT:
      if (low & 0x40) unforeseen("the byte order of a VAX");
      return { ...other, signed: true, bigEndian: (low & 1) !== 0, plain: isIeee(span, size, low, middle) };
    case BITS:
      return { ...other, bigEndian: (low & 1) !== 0 };
    case TEXT:
      return { ...other, utf8: low >> 4 === 1 };
    case ROWS:
      return (low & 15) === 1 ? { ...other, kind: TEXT, variable: true, utf8: (middle & 15) === 1 } : other;
    case ENUM:
      if (nested) unforeseen("an enumeration of enumerations");
      return enumeration(span, other, version, low | middle << 8);
  }
  if (high !== 0 && kind !== COMPOUND) return { ...other, plain: false };
  return other;
}

/** [exponent's place, its bits, mantissa's bits, bias], by the bytes of a float. */
const IEEE: Readonly<Record<number, readonly number[]>> = {
  2: [10, 5, 10, 15],
  4: [23, 8, 23, 127],
  8: [52, 11, 52, 1023],
};

function isIeee(span: ByteSpan, size: number, low: number, sign: number): boolean {
  const offset = span.u16(), precision = span.u16();
  const [place, exponent, mantissaPlace, mantissa] = [span.u8(), span.u8(), span.u8(), span.u8()];
  const bias = span.u32(), expected = IEEE[size];
  if (!expected) return false;
  const found = [place, exponent, mantissa, bias];
  const impliedOne = (low >> 4 & 3) === 2;
  return offset === 0 && precision === 8 * size && sign === 8 * size - 1 && mantissaPlace === 0 &&
    impliedOne &&
    expected.every((value, i) => value === found[i]);
}

function enumeration(span: ByteSpan, other: Type, version: number, count: number): Type {
  const base = readType(span, true);
  if (base.kind !== INTEGER || base.size !== other.size || !base.plain || base.size > 8) {
    unforeseen("an enumeration");
  }
  const keys = Array.from({ length: count }, () => {
    const bytes = span.name();
    // Before version 3 a name with its zero is padded to multiples of 8.
    if (version < 3) span.skip((8 - (bytes.length + 1) % 8) % 8);
    return textOfName(bytes);
  });
  const names = new Map<string, number>();
  for (const key of keys) {
    const { bytes } = span.take(base.size);
    const [value] = base.size > 1 ? [NaN] : base.signed ? new Int8Array(bytes) : bytes; // longer ones are never asked for
    names.set(key, value);
  }
  if (names.size !== count) unforeseen("a name twice in an enumeration");
  return { ...other, signed: base.signed, bigEndian: base.bigEndian, plain: true, names };
}

const MOST_DIMENSIONS = 32;

interface Space {
  /** Null means no elements; [] a single one. */
  readonly shape: readonly number[] | null;
  readonly fixed: boolean;
}

export function readSpace(span: ByteSpan): Space {
  const version = span.u8(), rank = span.u8(), flags = span.u8();
  if (version !== 1 && version !== 2) unforeseen("a version of dataspaces");
  if (rank > MOST_DIMENSIONS || flags > 1) unforeseen("a dataspace");
  const kind = version === 2 ? span.u8() : rank === 0 ? SCALAR : SIMPLE;
  if (version === 1) span.skip(5);
  if (kind > NONE || kind === SIMPLE !== rank > 0) unforeseen("a kind of dataspace");
  if (kind === NONE) return { shape: null, fixed: true };
  const sizes = Array.from({ length: rank }, () => span.uint(8));
  const fixed = flags === 0 || sizes.every((size) => span.address8() === size); // how far it may grow
  // The library's interface has sizes of 32 bits.
  if (sizes.some((size) => size >= 2 ** 32) || elements(sizes) > 2 ** 50) unforeseen("a huge dataspace");
  return { shape: sizes, fixed };
}

const SCALAR = 0, SIMPLE = 1, NONE = 2;

export const elements = (shape: readonly number[]): number => shape.reduce((total, size) => total * size, 1);

export interface Hdf5 {
  readonly variables: readonly Variable[];
  readonly isNetcdf: boolean;
}

export interface DatatypeFacts {
  readonly kind: number;
  readonly size: number;
  readonly signed: boolean;
  readonly names: ReadonlyMap<string, number> | null;
  readonly shape: readonly number[] | null;
  readonly virtual: boolean;
  readonly filters: readonly { readonly id: number; readonly name: string }[];
}

const WORDS: Record<number, string> = {
  2: "times",
  4: "bit fields",
  5: "opaque values",
  6: "compound values",
  7: "references",
  9: "rows of unequal length",
  10: "arrays",
};

export function dtypeOf(
  { kind, size, signed, names }: Pick<DatatypeFacts, "kind" | "size" | "signed" | "names">,
): DType | null {
  if (kind === ENUM && size === 1 && names?.get("FALSE") === 0 && names.size === 2) return "bool";
  if (kind === FLOAT) return ({ 2: "f16", 4: "f32", 8: "f64" } as const)[size] ?? null;
  if (kind !== INTEGER && kind !== ENUM) return null;
  const bits = { 1: 8, 2: 16, 4: 32, 8: 64 }[size];
  return bits ? `${signed ? "i" : "u"}${bits}` as DType : null;
}

/** Every build of the library has gzip, shuffle, checksum, n-bit and scale-offset. */
const FILTERS = [1, 2, 3, 5, 6];

export function reasonAgainst(facts: DatatypeFacts): string | undefined {
  const { kind, size, shape, virtual, filters } = facts;
  if (kind === TEXT) return "holds text";
  if (!dtypeOf(facts)) {
    return `holds ${kind === FLOAT ? `floats of ${8 * size} bits` : WORDS[kind] ?? "no numbers"}`;
  }
  if (!shape) return "is empty";
  // The library would make up fill values for a missing source.
  if (virtual) return "is pieced together from other files, which is not supported";
  const filter = filters.find(({ id }) => !FILTERS.includes(id));
  return filter &&
    `is compressed with ${filter.name || `filter ${filter.id}`}, which can't be read here (gzip can: ` +
      "h5repack -f GZIP=4 OLD NEW)";
}

export const NUMBER_ATTRIBUTES =
  /^(_FillValue|missing_value|valid_min|valid_max|valid_range|scale_factor|add_offset)$/;
export const TEXTS = /^(_Unsigned|coordinates|bounds|grid_mapping|units)$/;
/** HDF5 and netCDF keep dimensions and their own affairs in attributes of these names. */
export const RESERVED_ATTRIBUTES =
  /^(CLASS|NAME|DIMENSION_LIST|REFERENCE_LIST|DIMENSION_LABELS|_Net[cC]df4.*|_NC.*|_nc.*)$/;
/** Longer lists of numbers describe nothing. */
export const MOST_NUMBERS = 4096;

export const NETCDFS = ["_Netcdf4Dimid", "_Netcdf4Coordinates"], NETCDFS_ROOT = "_NCProperties";

/** Such a dataset exists for a dimension's length alone. */
export const isBareDimension = (name: string): boolean =>
  name.startsWith("This is a netCDF dimension but not a ");

/** netCDF prefixes a variable that shares a name with a dimension it does not have. */
export const plainName = (name: string): string => name.replace(/(^|\/)_nc4_non_coord_/, "$1");
