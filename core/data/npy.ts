// The npy format: a header that is a Python dictionary, then numbers. May import errors, swap_bytes, ffi.
import { type DType, dtypeBytes } from "../../ffi/dtype.ts";
import { readBytes, uninitialised, writeBytes } from "../../ffi/make.ts";
import { permute } from "../../ffi/ops.ts";
import { scope } from "../../ffi/tensor.ts";
import { UserError } from "../errors.ts";
import { swapBytes } from "./swap_bytes.ts";

export interface NpyHeader {
  readonly shape: readonly number[];
  readonly dtype: DType;
  /** The first index varies fastest. */
  readonly fortran: boolean;
  readonly bigEndian: boolean;
  /** Where the numbers begin. */
  readonly start: number;
  /** In place of numbers that can be read: why not, to be put after the array's name. */
  readonly unusable?: string;
}

/** numpy's letter and size -> our name. */
const TYPES: Readonly<Record<string, DType>> = {
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

/** The most bytes of a header that are looked at: numpy pads its own to a multiple of 64, and 128 is usual. */
export const HEADER_BYTES = 65_536 + 12;

/** Reads the header at the beginning of `file`; `size` is the length of all of it. `where` names it in messages. */
export function readNpyHeader(where: string, file: Uint8Array, size: number): NpyHeader {
  const magic = String.fromCharCode(...file.subarray(0, 6));
  if (magic !== "\x93NUMPY" || file.length < 10) {
    throw new UserError(
      "data",
      `${where} is ${size === 0 ? "empty" : "no npy file: it doesn't begin with \\x93NUMPY"}. ` +
        "Write it again with numpy.save or numpy.savez.",
    );
  }
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  // Version 1 has two bytes of length, 2 and 3 have four.
  const wide = file[6] > 1;
  const textAt = wide ? 12 : 10;
  const length = wide ? (file.length >= 12 ? view.getUint32(8, true) : Infinity) : view.getUint16(8, true);
  const start = textAt + length;
  if (file[6] > 3 || start > Math.min(size, file.length)) {
    throw new UserError(
      "data",
      `${where} has a damaged npy header (version ${
        file[6]
      }, ${length} bytes). Copy it again, or write it anew.`,
    );
  }
  return { ...parse(where, new TextDecoder().decode(file.subarray(textAt, start))), start };
}

/** What has to be in the dictionary, in whatever order and spacing. */
function parse(where: string, text: string): Omit<NpyHeader, "start"> {
  const descr = /['"]descr['"]\s*:\s*(?:['"]([^'"]*)['"]|(\[))/.exec(text);
  const order = /['"]fortran_order['"]\s*:\s*(True|False)/.exec(text);
  const dims = /['"]shape['"]\s*:\s*\(([\d\sL,]*)\)/.exec(text);
  if (!descr || !order || !dims) {
    throw new UserError(
      "data",
      `${where} has an npy header that can't be understood: ${JSON.stringify(text.trim().slice(0, 200))}. ` +
        "Write it again with numpy.save.",
    );
  }
  const shape = dims[1].split(",").map((size) => size.trim().replace(/L$/, "")).filter(Boolean).map(Number);
  const facts = { shape, fortran: order[1] === "True" };
  if (descr[2]) return { ...facts, dtype: "u8", bigEndian: false, unusable: "has records with named fields" };
  const [, mark, type] = /^([<>|=]?)(.*)$/.exec(descr[1])!;
  const dtype = Object.hasOwn(TYPES, type) ? TYPES[type] : undefined;
  if (dtype) return { ...facts, dtype, bigEndian: mark === ">" };
  return { ...facts, dtype: "u8", bigEndian: false, unusable: reason(type, descr[1]) };
}

function reason(type: string, descr: string): string {
  const kind = type[0];
  if (kind === "O") {
    return "holds Python objects, which only unpickling could read, and that would run whatever code is in the " +
      "file: save it as numbers (array.astype(float))";
  }
  if (kind === "U" || kind === "S") return "holds text: save numbers in its place";
  if (kind === "c") return "holds complex numbers: save their real and imaginary parts";
  if (kind === "M" || kind === "m") return "holds dates or times: save them as numbers";
  return `is of the type ${JSON.stringify(descr)}, which can't be trained with: save it as float32`;
}

/** Refuses numbers that the header promises and the file doesn't have, before any memory is taken for them. */
export function checkNpySize(
  where: string,
  { shape, dtype, start, unusable }: NpyHeader,
  size: number,
): void {
  if (unusable) return;
  const expected = start + shape.reduce((a, b) => a * b, dtypeBytes(dtype));
  if (expected === size) return;
  throw new UserError(
    "data",
    `${where} is ${
      size < expected ? "truncated" : "longer than its header says"
    }: ${expected} bytes expected for ` +
      `[${shape.join(", ")}] of ${dtype}, ${size} found. Copy it again, or write it anew.`,
  );
}

/** The numbers in this machine's byte order and in row-major order. May change `bytes`. */
export function npyNumbers({ shape, dtype, fortran, bigEndian }: NpyHeader, bytes: Uint8Array): Uint8Array {
  const width = dtypeBytes(dtype);
  const aligned = bytes.byteOffset % width === 0 ? bytes : bytes.slice();
  if (bigEndian) swapBytes(aligned, width);
  return fortran && shape.length > 1 ? rowMajor(aligned, shape, dtype) : aligned;
}

/** From the order in which the first index varies fastest to the one in which the last does: libtorch is good at it. */
const rowMajor = (bytes: Uint8Array, shape: readonly number[], dtype: DType): Uint8Array =>
  scope(() => {
    const reversed = uninitialised(shape.toReversed(), { dtype });
    writeBytes(reversed, bytes);
    return readBytes(permute(reversed, shape.map((_, i) => shape.length - 1 - i)));
  });
