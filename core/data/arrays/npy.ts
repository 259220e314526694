// The header of NumPy's .npy arrays, read and written.
import { type DType, dtypeBytes } from "../../../ffi/dtype.ts";
import { UserError } from "../../base/errors.ts";
import { NUMPY_TYPES } from "./numbers.ts";

export interface NpyHeader {
  readonly shape: readonly number[];
  readonly dtype: DType;
  /** The first index varies fastest. */
  readonly fortran: boolean;
  readonly bigEndian: boolean;
  readonly start: number;
  /** Texts of one length each, of one byte a letter or of four. */
  readonly text?: { readonly letters: number; readonly width: 1 | 4 };
  /** The reason follows the array's name. */
  readonly unusable?: string;
}

/** numpy pads headers to a multiple of 64, and 128 is usual; more bytes than this are not read. */
export const HEADER_BYTES = 65_536 + 12;

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
      `${where} has a damaged npy header (version ${file[6]}, ${length} bytes). Copy or write it again.`,
    );
  }
  return { ...parse(where, new TextDecoder().decode(file.subarray(textAt, start))), start };
}

/** The entries come in any order and spacing. */
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
  const type = descr[1].replace(/^[<>|=]/, "");
  const dtype = Object.hasOwn(NUMPY_TYPES, type) ? NUMPY_TYPES[type] : undefined;
  if (dtype) return { ...facts, dtype, bigEndian: descr[1][0] === ">" };
  const [, letter, letters] = /^([US])(\d+)$/.exec(type) ?? [];
  if (letter && shape.length === 1) {
    const text = { letters: Number(letters), width: letter === "U" ? 4 : 1 } as const;
    return { ...facts, dtype: "u8", bigEndian: descr[1][0] === ">", text };
  }
  return { ...facts, dtype: "u8", bigEndian: false, unusable: reason(type, descr[1]) };
}

function reason(type: string, descr: string): string {
  const kind = type[0];
  if (kind === "O") {
    return "holds Python objects, which only unpickling could read, and that would run whatever code is in the " +
      "file: save it as numbers (array.astype(float))";
  }
  if (kind === "U" || kind === "S") return "holds text in several dimensions: labels are one text a sample";
  if (kind === "c") return "holds complex numbers: save their real and imaginary parts";
  if (kind === "M" || kind === "m") return "holds dates or times: save them as numbers";
  return `is of the type ${JSON.stringify(descr)}, which can't be trained with: save it as float32`;
}

/** It refuses numbers that the file lacks before any memory is taken for them. */
export function checkNpySize(
  where: string,
  { shape, dtype, start, unusable, text }: NpyHeader,
  size: number,
): void {
  if (unusable) return;
  const each = text ? text.letters * text.width : dtypeBytes(dtype);
  const expected = start + shape.reduce((a, b) => a * b, each);
  if (expected === size) return;
  throw new UserError(
    "data",
    `${where} is ${
      size < expected ? "truncated" : "longer than its header says"
    }: ${expected} bytes expected for ` +
      `[${shape.join(", ")}] of ${text ? "texts" : dtype}, ${size} found. Copy or write it again.`,
  );
}

/** This machine's byte order, which single bytes have not. */
const DESCR = Object.fromEntries(
  Object.entries(NUMPY_TYPES).map(([type, dtype]) => [dtype, (dtypeBytes(dtype) === 1 ? "|" : "<") + type]),
);

/** As in numpy.save, padding makes the numbers begin at a multiple of 64. */
export function npyHeader(shape: readonly number[], dtype: DType): Uint8Array {
  const sizes = shape.length === 1 ? `${shape[0]},` : shape.join(", ");
  const text = `{'descr': '${DESCR[dtype]}', 'fortran_order': False, 'shape': (${sizes}), }`;
  const length = Math.ceil((10 + text.length + 1) / 64) * 64;
  const header = new Uint8Array(length).fill(0x20);
  header.set([0x93, ...new TextEncoder().encode("NUMPY"), 1, 0, (length - 10) & 255, (length - 10) >> 8]);
  header.set(new TextEncoder().encode(text), 10);
  header[length - 1] = 10;
  return header;
}
