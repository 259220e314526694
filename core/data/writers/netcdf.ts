// Classic NetCDF, which every NetCDF library reads: with 64-bit offsets (CDF-2), or with 64-bit sizes (CDF-5)
// where a variable is larger than those allow.
import { writeAll } from "../../base/atomic.ts";
import { product } from "../arrays/numbers.ts";
import { swapBytes } from "../codecs/bytes.ts";
import type { Dimension } from "../arrays/grid.ts";

const CODES = { text: 2, i8: 1, i16: 3, i32: 4, f32: 5, f64: 6 } as const;
const BYTES = { i8: 1, i16: 2, i32: 4, f32: 4, f64: 8 } as const;

export type ClassicType = keyof typeof BYTES;

export type NetcdfNumbers = Int8Array | Int16Array | Int32Array | Float32Array | Float64Array;

export const ARRAYS: Readonly<Record<ClassicType, new (values: number | Iterable<number>) => NetcdfNumbers>> =
  {
    i8: Int8Array,
    i16: Int16Array,
    i32: Int32Array,
    f32: Float32Array,
    f64: Float64Array,
  };

export type AttributeValue = string | { readonly type: ClassicType; readonly values: readonly number[] };
export type ClassicAttributes = Readonly<Record<string, AttributeValue>>;

export interface ClassicVariable {
  readonly name: string;
  readonly type: ClassicType;
  /** Names of the file's dimensions. */
  readonly dimensions: readonly string[];
  readonly attributes: ClassicAttributes;
  /** All values in order. Each piece is swapped in place, so it must be the writer's own. */
  pieces(): Iterable<NetcdfNumbers>;
}

export interface ClassicFile {
  readonly dimensions: readonly Dimension[];
  readonly attributes: ClassicAttributes;
  readonly variables: readonly ClassicVariable[];
}

const DIMENSION = 10, VARIABLE = 11, ATTRIBUTE = 12;
/** CDF-2 has sizes of 32 bits. */
export const MOST_BYTES = 2 ** 32 - 4;

export function writeClassic(file: Deno.FsFile, content: ClassicFile, most = MOST_BYTES): void {
  const sizes = content.variables.map((variable) => bytesOf(content, variable));
  const version = sizes.some((size) => size > most) ? 5 : 2;
  const begin = header(content, sizes, version, 0).length;
  writeAll(file, header(content, sizes, version, begin));
  content.variables.forEach(({ type, pieces }, i) => {
    let written = 0;
    for (const { buffer, byteOffset, byteLength } of pieces()) {
      const bytes = new Uint8Array(buffer, byteOffset, byteLength);
      swapBytes(bytes, BYTES[type]);
      writeAll(file, bytes);
      written += byteLength;
    }
    if (written !== sizes[i]) {
      throw new Error(`internal: ${content.variables[i].name} has ${written} bytes of ${sizes[i]}`);
    }
    writeAll(file, new Uint8Array(padded(written) - written));
  });
}

export const classicBytes = (content: ClassicFile): number =>
  content.variables.reduce((sum, variable) => sum + padded(bytesOf(content, variable)), 0);

const bytesOf = ({ dimensions }: ClassicFile, variable: ClassicVariable): number =>
  BYTES[variable.type] *
  product(variable.dimensions.map((name) => dimensions.find((dimension) => dimension.name === name)!.size));

const padded = (length: number) => Math.ceil(length / 4) * 4;

function header(
  { dimensions, attributes, variables }: ClassicFile,
  sizes: readonly number[],
  version: 2 | 5,
  begin: number,
): Uint8Array {
  const out = headerBytes(version);
  out.word(0x43444600 + version).count(0); // "CDF", and no records
  out.list(DIMENSION, dimensions, ({ name, size }) => out.name(name).count(size));
  writeAttributes(out, attributes);
  let at = begin;
  out.list(VARIABLE, variables, ({ name, type, dimensions: own, attributes }, i) => {
    out.name(name).count(own.length);
    for (const dimension of own) out.count(dimensions.findIndex(({ name }) => name === dimension));
    writeAttributes(out, attributes);
    out.word(CODES[type]).count(padded(sizes[i])).wide(at);
    at += padded(sizes[i]);
  });
  return out.whole();
}

type Out = ReturnType<typeof headerBytes>;

function writeAttributes(out: Out, attributes: ClassicAttributes): void {
  out.list(ATTRIBUTE, Object.entries(attributes), ([name, value]) => {
    out.name(name);
    if (typeof value === "string") return void out.word(CODES.text).name(value);
    const numbers = new ARRAYS[value.type](value.values);
    const bytes = new Uint8Array(numbers.buffer);
    swapBytes(bytes, BYTES[value.type]);
    out.word(CODES[value.type]).count(numbers.length).padded(bytes);
  });
}

function headerBytes(version: 2 | 5) {
  const all: number[] = [];
  const out = {
    word(value: number) {
      all.push(value >>> 24, value >>> 16 & 255, value >>> 8 & 255, value & 255);
      return out;
    },
    wide: (value: number) => out.word(Math.floor(value / 2 ** 32)).word(value % 2 ** 32),
    /** Sizes and numbers of things have 64 bits in CDF-5. */
    count: (value: number) => version === 5 ? out.wide(value) : out.word(value),
    padded(bytes: Uint8Array) {
      for (const byte of bytes) all.push(byte);
      while (all.length % 4 !== 0) all.push(0);
      return out;
    },
    name(text: string) {
      const bytes = new TextEncoder().encode(text);
      return out.count(bytes.length).padded(bytes);
    },
    list<T>(tag: number, items: readonly T[], write: (item: T, i: number) => void) {
      out.word(items.length > 0 ? tag : 0).count(items.length);
      items.forEach(write);
    },
    whole: () => Uint8Array.from(all),
  };
  return out;
}
