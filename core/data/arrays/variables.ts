// Attributes of NetCDF and HDF5 variables define missing values, fills and scale; columns hold the result.
import { type DType, dtypeBytes, isFloating } from "../../../ffi/dtype.ts";
import { product, type Rows, withRules } from "./rows.ts";
import type { Column, Stream } from "../tables/columns.ts";

export type Values = ArrayLike<number> | ArrayLike<bigint>;
export type Floats = Float32Array | Float64Array;

export interface Rule {
  readonly missing: readonly number[];
  readonly min: number;
  readonly max: number;
  readonly scale: number;
  readonly offset: number;
}

/** Missing values become NaN and a 1 in `marks`; the result counts them. `from` may be `to`. */
export function applyRule(
  rule: Rule,
  from: Values,
  to: Floats,
  marks?: Uint8Array,
): number {
  if (from === to && to instanceof Float32Array && hasFillsAlone(rule)) {
    return eraseFills(to, rule.missing, marks);
  }
  const wide = from instanceof BigInt64Array || from instanceof BigUint64Array;
  return applyTo(rule, wide ? Float64Array.from(from, Number) : from as ArrayLike<number>, to, marks);
}

function applyTo(
  { missing, min, max, scale, offset }: Rule,
  from: ArrayLike<number>,
  to: Floats,
  marks?: Uint8Array,
): number {
  const [first, ...others] = missing;
  const several = others.length > 0, unordered = missing.includes(NaN);
  let count = 0;
  for (let i = 0; i < to.length; i++) {
    const value = from[i];
    const absent = value === first || value < min || value > max || (several && others.includes(value)) ||
      (unordered && value !== value);
    to[i] = absent ? NaN : value * scale + offset;
    if (!absent) continue;
    count++;
    if (marks) marks[i] = 1;
  }
  return count;
}

/** Most variables have one fill and no scale; xarray's fill is NaN. */
const hasFillsAlone = ({ missing, min, max, scale, offset }: Rule): boolean =>
  !missing.includes(0) && min === -Infinity && max === Infinity && scale === 1 && offset === 0;

/** Missing values are NaN already, and all others are as they are meant. */
export const leavesFloats = (rule: Rule): boolean => hasFillsAlone(rule) && rule.missing.every(Number.isNaN);

/** Null where a rule does more than to say which floats are missing. */
function fillBits(rules: readonly (Rule | null)[]): number[] | null {
  const own = rules.filter((rule) => rule !== null);
  if (!own.every(hasFillsAlone)) return null;
  const fills = new Set(own.flatMap(({ missing }) => missing).filter(Number.isFinite));
  return [...new Uint32Array(Float32Array.from(fills).buffer)];
}

function eraseFills(values: Float32Array, missing: readonly number[], marks?: Uint8Array): number {
  let count = 0;
  for (const fill of missing) if (fill === fill) count += eraseFill(values, fill, marks);
  if (!missing.includes(NaN)) return count;
  const all = countMissing(values);
  if (marks && all > 0) {
    values.forEach((value, i) => {
      if (value !== value) marks[i] = 1;
    });
  }
  return all;
}

/** The bits of a NaN, without its sign, are a greater number than those of infinity. */
function countMissing({ buffer, byteOffset, length }: Float32Array): number {
  const words = new Int32Array(buffer, byteOffset, length);
  let count = 0;
  for (let i = 0; i < length; i++) count += 0x7f800000 - (words[i] & 0x7fffffff) >>> 31;
  return count;
}

/** Equal floats have equal bits: comparing bits takes a tenth of the time. */
function eraseFill(values: Float32Array, fill: number, marks?: Uint8Array): number {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  const [sought] = new Uint32Array(Float32Array.of(fill).buffer);
  let count = 0;
  for (let at = bits.indexOf(sought); at >= 0; at = bits.indexOf(sought, at + 1)) {
    values[at] = NaN;
    if (marks) marks[at] = 1;
    count++;
  }
  return count;
}

export interface Variable {
  readonly name: string;
  readonly shape: readonly number[];
  /** Variables with the same dimensions lie on the same grid. */
  readonly dimensions: readonly string[];
  readonly dtype: DType | null;
  readonly attributes: ReadonlyMap<string, readonly number[] | string>;
  /** A coordinate or another description is no feature unless it is named. */
  readonly auxiliary: boolean;
  /** The reason follows the variable's name. */
  readonly unusable?: string;
  /** Files disagree in it, so choosing it is refused; the reason follows the variable's name. */
  readonly conflict?: string;
  /** The numbers 0, 1, 2, ... stand for these. */
  readonly labels?: readonly string[];
  /** Joined files are packed in different ways: samples of the first file, then those of the next. */
  readonly packings?: readonly Packing[];
  read(): Uint8Array;
  /** Row by row along the first `lead` dimensions; a string says why not, and follows the variable's name. */
  rows(lead: number): Rows | string;
}

export interface Packing {
  readonly samples: number;
  readonly attributes: Variable["attributes"];
}

export interface VariableColumn extends Column {
  readonly variable: Variable;
  readMarking(absent: Uint8Array): ArrayBufferView;
  rowsAt(lead: number): Rows | string;
  /** A column of another variable, by the same rules. */
  of(variable: Variable): VariableColumn;
  readonly stream: Stream;
}

/** netCDF leaves these values where nothing was written, without a _FillValue; bytes have none. */
const DEFAULT_FILL: Partial<Record<DType, number>> = {
  i16: -32767,
  u16: 65535,
  i32: -2147483647,
  u32: 4294967295,
  i64: -9223372036854775806,
  u64: 18446744073709551614,
  f32: 9.969209968386869e36,
  f64: 9.969209968386869e36,
};

const UNSIGNED: Partial<Record<DType, DType>> = { i8: "u8", i16: "u16", i32: "u32", i64: "u64" };

/** The type of the stored numbers. */
export function storedDtype({ dtype, attributes }: Pick<Variable, "dtype" | "attributes">): DType {
  const signed = dtype ?? "f32", text = attributes.get("_Unsigned");
  return text === "true" || text === "True" ? UNSIGNED[signed] ?? signed : signed;
}

const PACKING = [
  ...["_FillValue", "missing_value", "valid_min", "valid_max", "valid_range"],
  ...["scale_factor", "add_offset"],
];

export const isPackingAttribute = (name: string): boolean => PACKING.includes(name);

/** Stored numbers of both mean the same. */
export const samePacking = (a: Variable["attributes"], b: Variable["attributes"]): boolean =>
  PACKING.every((name) => String(a.get(name) ?? "") === String(b.get(name) ?? ""));

export const sameBytes = (a: Uint8Array, b: Uint8Array): boolean =>
  a.length === b.length && a.every((byte, i) => byte === b[i]);

export function toColumn(
  variable: Variable,
  isNetcdf: boolean,
  fillsByDefault = isNetcdf,
): VariableColumn {
  const { name, shape, attributes, auxiliary, conflict, labels } = variable;
  const unusable = conflict ?? variable.unusable;
  const units = attributes.get("units"), calendar = attributes.get("calendar");
  const raw = storedDtype(variable);
  const packings = variable.packings ?? [{ samples: shape[0] ?? 1, attributes }];
  const rules = packings.map((packing) => ruleOf(packing.attributes, raw, fillsByDefault));
  const rule = rules.find((rule) => rule !== null) ?? null;
  // A float of the same or twice the size holds each value and NaN; i64 and u64 beyond 2^53 are rounded.
  const dtype = !rule ? raw : raw === "f32" || dtypeBytes(raw) <= 2 ? "f32" : "f64";
  const row = product(shape.slice(1)), counts = packings.map(({ samples }) => samples * row);
  const unpack = (stored: Values, to: Floats, absent?: Uint8Array) =>
    rules.length === 1
      ? void applyInPlace(rule ?? NO_RULE, stored, to, absent)
      : applyInTurn(rules, counts, stored, to, absent);
  const read = (absent?: Uint8Array) => {
    if (!rule) return variable.read();
    const stored = view(variable.read(), raw);
    const to = dtype === "f32" ? new Float32Array(stored.length) : new Float64Array(stored.length);
    unpack(stored, to, absent);
    return to;
  };
  const rowsAt = (lead: number) => {
    const rows = variable.rows(lead);
    return typeof rows === "string" || rules.length === 1
      ? rows
      : withRules(rows, rules.map((own) => own ?? NO_RULE));
  };
  return {
    name,
    shape,
    dtype,
    variable,
    unusable,
    ...(isNetcdf ? { dimensions: variable.dimensions } : {}),
    units: typeof units === "string" ? units : undefined,
    calendar: typeof calendar === "string" ? calendar : undefined,
    onlyByName: auxiliary || variable.unusable !== undefined || shape.length === 0,
    ...(labels && { text: { example: `"${labels[0]}"`, classes: () => labels } }),
    whole: rule !== null && !isFloating(raw) &&
      rules.every((own) => !own || (own.scale === 1 && Number.isInteger(own.offset))),
    read: () => read(),
    readMarking: read,
    stored: { variable, raw, fills: raw === "f32" ? fillBits(rules) : null, unpack: rule && unpack },
    rowsAt,
    of: (variable) => toColumn(variable, isNetcdf, fillsByDefault),
    stream: { rows: () => rowsAt(1), raw, rule },
  };
}

/** One file of several has no fill, limits and scale. */
const NO_RULE: Rule = { missing: [], min: -Infinity, max: Infinity, scale: 1, offset: 0 };

/** Null means no change. As in Python's netCDF4, limits and fills are of packed values. */
function ruleOf(attributes: Variable["attributes"], dtype: DType, fillsByDefault: boolean): Rule | null {
  const cast = (value: number) => dtype === "f32" ? Math.fround(value) : value;
  const numbers = (name: string) => {
    const value = attributes.get(name);
    return typeof value === "object" ? value : [];
  };
  const fill = numbers("_FillValue");
  const usual = fillsByDefault && fill.length === 0 ? DEFAULT_FILL[dtype] : undefined;
  const all = [...fill, ...numbers("missing_value"), ...(usual === undefined ? [] : [usual])];
  const missing = [...new Set(all.map(cast))]; // a fill is often both
  const [low, high] = numbers("valid_range");
  const min = cast(numbers("valid_min")[0] ?? low ?? -Infinity);
  const max = cast(numbers("valid_max")[0] ?? high ?? Infinity);
  const scale = numbers("scale_factor")[0] ?? 1, offset = numbers("add_offset")[0] ?? 0;
  const plain = missing.length === 0 && min === -Infinity && max === Infinity && scale === 1 && offset === 0;
  return plain ? null : { missing, min, max, scale, offset };
}

/** Floats with fills alone are moved at once, and then looked through. */
function applyInPlace(rule: Rule, from: Values, to: Floats, marks?: Uint8Array): void {
  const alike = from instanceof Float32Array && to instanceof Float32Array && hasFillsAlone(rule);
  if (alike && from !== to) to.set(from);
  applyRule(rule, alike ? to : from, to, marks);
}

function applyInTurn(
  rules: readonly (Rule | null)[],
  counts: readonly number[],
  from: Values,
  to: Floats,
  marks?: Uint8Array,
): void {
  let at = 0;
  rules.forEach((rule, i) => {
    const end = at + counts[i], into = to.subarray(at, end);
    const part = from === to ? into : (from as Float64Array).subarray(at, end);
    applyInPlace(rule ?? NO_RULE, part, into, marks?.subarray(at, end));
    at = end;
  });
}

/** numpy names a type by its kind and bytes, behind the byte order. */
export const NUMPY_TYPES: Readonly<Record<string, DType>> = {
  b1: "bool",
  i1: "i8",
  i2: "i16",
  i4: "i32",
  i8: "i64",
  u1: "u8",
  u2: "u16",
  u4: "u32",
  u8: "u64",
  f2: "f16",
  f4: "f32",
  f8: "f64",
};

const ARRAYS: Partial<Record<DType, new (buffer: ArrayBufferLike, at: number, length: number) => Values>> = {
  i8: Int8Array,
  u8: Uint8Array,
  bool: Uint8Array,
  i16: Int16Array,
  u16: Uint16Array,
  i32: Int32Array,
  u32: Uint32Array,
  i64: BigInt64Array,
  u64: BigUint64Array,
  f16: Float16Array,
  f32: Float32Array,
  f64: Float64Array,
};

export function view(bytes: Uint8Array, dtype: DType): Values {
  return new ARRAYS[dtype]!(bytes.buffer, bytes.byteOffset, bytes.byteLength / dtypeBytes(dtype));
}
