// Attributes of NetCDF and HDF5 variables define missing values, fills and scale; columns hold the result.
import { type DType, dtypeBytes, isFloating } from "../../../ffi/dtype.ts";
import {
  applyRule,
  type DecodingRule,
  type Floats,
  hasFillsAlone,
  product,
  typedView,
  type VariableValues,
} from "./numbers.ts";
import type { Variable, VariableColumn } from "./table.ts";
import { basename } from "../../../deps/path.ts";
import type { Rows } from "./rows.ts";

/** Null where a rule does more than to say which floats are missing. */
function fillBits(rules: readonly (DecodingRule | null)[]): number[] | null {
  const own = rules.filter((rule) => rule !== null);
  if (!own.every(hasFillsAlone)) return null;
  const fills = new Set(own.flatMap(({ missing }) => missing).filter(Number.isFinite));
  return [...new Uint32Array(Float32Array.from(fills).buffer)];
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
  const isTurned = raw !== (variable.dtype ?? "f32");
  const rules = packings.map((packing) => ruleOf(packing.attributes, raw, fillsByDefault, isTurned));
  const rule = rules.find((rule) => rule !== null) ?? null;
  // A float of the same or twice the size holds each value and NaN; i64 and u64 beyond 2^53 are rounded.
  const dtype = !rule ? raw : raw === "f32" || dtypeBytes(raw) <= 2 ? "f32" : "f64";
  const row = product(shape.slice(1)), counts = packings.map(({ samples }) => samples * row);
  const unpack = (stored: VariableValues, to: Floats, absent?: Uint8Array) =>
    rules.length === 1
      ? void applyInPlace(rule ?? NO_RULE, stored, to, absent)
      : applyInTurn(rules, counts, stored, to, absent);
  const read = (absent?: Uint8Array) => {
    if (!rule) return variable.read();
    const stored = typedView(variable.read(), raw);
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
    whole: !isFloating(raw) &&
      rules.every((own) => !own || (own.scale === 1 && Number.isInteger(own.offset))),
    read: () => read(),
    readMarking: read,
    stored: { variable, raw, fills: raw === "f32" ? fillBits(rules) : null, unpack: rule && unpack },
    rowsAt,
    of: (variable) => toColumn(variable, isNetcdf, fillsByDefault),
    stream: { rows: () => rowsAt(1), raw, rule },
  };
}

const withRules = (rows: Rows, rules: readonly (DecodingRule | null)[]): Rows =>
  rows.layout === "picked"
    ? { ...rows, rows: withRules(rows.rows, rules) }
    : rows.layout === "parts"
    ? { ...rows, rules }
    : rows;

/** One file of several has no fill, limits and scale. */
const NO_RULE: DecodingRule = { missing: [], min: -Infinity, max: Infinity, scale: 1, offset: 0 };

/** Null means no change. As in Python's netCDF4, limits and fills are of packed values, and unsigned where `_Unsigned` makes those so. */
function ruleOf(
  attributes: Variable["attributes"],
  dtype: DType,
  fillsByDefault: boolean,
  isTurned: boolean,
): DecodingRule | null {
  const unsigned = (value: number) => isTurned && value < 0 ? value + 2 ** (8 * dtypeBytes(dtype)) : value;
  const cast = (value: number) => dtype === "f32" ? Math.fround(value) : unsigned(value);
  const numbers = (name: string) => {
    const value = attributes.get(name);
    return typeof value === "object" ? value : [];
  };
  const fill = numbers("_FillValue");
  const usual = fillsByDefault && fill.length === 0 && !isTurned ? DEFAULT_FILL[dtype] : undefined;
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
function applyInPlace(rule: DecodingRule, from: VariableValues, to: Floats, marks?: Uint8Array): void {
  const alike = from instanceof Float32Array && to instanceof Float32Array && hasFillsAlone(rule);
  if (alike && from !== to) to.set(from);
  applyRule(rule, alike ? to : from, to, marks);
}

function applyInTurn(
  rules: readonly (DecodingRule | null)[],
  counts: readonly number[],
  from: VariableValues,
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

export const FILE_COLUMN = "file";

interface Counted {
  readonly path: string;
  readonly samples: number;
}

/** Files of one name are told apart by their folders. */
export function fileVariable(files: readonly Counted[], dimension: string | null): Variable {
  const names = files.map(({ path }) => basename(path));
  const labels = new Set(names).size === names.length ? names : files.map(({ path }) => path);
  const numbers = Int32Array.from(files.flatMap(({ samples }, i) => Array<number>(samples).fill(i)));
  const bytes = new Uint8Array(numbers.buffer);
  return {
    name: FILE_COLUMN,
    shape: [numbers.length],
    dimensions: [dimension ?? `size ${numbers.length}`],
    dtype: "i32",
    attributes: new Map(),
    auxiliary: true,
    labels,
    read: () => bytes.slice(),
    rows: (lead) => ({
      layout: "held",
      path: files[0].path,
      values: bytes,
      bytes: lead === 0 ? bytes.length : 4,
    }),
  };
}

/** A variable of the data's own that has the name is what users mean. */
export const withFile = <C extends { readonly name: string }>(
  columns: readonly C[],
  file: C | null,
): readonly C[] =>
  file === null || columns.some(({ name }) => name === FILE_COLUMN) ? columns : [...columns, file];
