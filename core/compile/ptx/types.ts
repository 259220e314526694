// The types of CUDA C and the registers of PTX that hold their values.
import { NoPtx } from "./no_ptx.ts";

export type Scalar =
  | "bool"
  | "unsigned char"
  | "unsigned short"
  | "int"
  | "unsigned"
  | "long long"
  | "unsigned long long"
  | "float"
  | "double";
/** Memory that a pointer reaches is the device's or the block's. */
export type Space = "global" | "shared";
export interface Pointer {
  readonly to: Type;
  readonly space: Space;
}
export interface Struct {
  readonly fields: readonly { readonly name: string; readonly type: Type }[];
}
export type Type = Scalar | Pointer | Struct;

interface Kind {
  /** The first letter of its registers; those of one kind have one type of PTX. */
  readonly register: "p" | "r" | "l" | "f" | "d";
  /** As instructions name it: "s32". */
  readonly name: string;
  /** As it lies in memory. */
  readonly memory: string;
  readonly bytes: number;
  /** In C's order of conversions; 0: it is an int when somebody computes with it. */
  readonly rank: number;
}

const KINDS: Readonly<Record<Scalar, Kind>> = {
  bool: { register: "p", name: "pred", memory: "u8", bytes: 1, rank: 0 },
  "unsigned char": { register: "r", name: "u32", memory: "u8", bytes: 1, rank: 0 },
  "unsigned short": { register: "r", name: "u32", memory: "u16", bytes: 2, rank: 0 },
  int: { register: "r", name: "s32", memory: "u32", bytes: 4, rank: 1 },
  unsigned: { register: "r", name: "u32", memory: "u32", bytes: 4, rank: 2 },
  "long long": { register: "l", name: "s64", memory: "u64", bytes: 8, rank: 3 },
  "unsigned long long": { register: "l", name: "u64", memory: "u64", bytes: 8, rank: 4 },
  float: { register: "f", name: "f32", memory: "f32", bytes: 4, rank: 5 },
  double: { register: "d", name: "f64", memory: "f64", bytes: 8, rank: 6 },
};

/** PTX's type of the registers of a letter. */
export const REGISTERS = { p: "pred", r: "b32", l: "b64", f: "f32", d: "f64", h: "b16" } as const;
export type Register = keyof typeof REGISTERS;

export const isScalar = (type: Type): type is Scalar => typeof type === "string";
export const isStruct = (type: Type): type is Struct => typeof type !== "string" && "fields" in type;
export const isPointer = (type: Type): type is Pointer => typeof type !== "string" && "to" in type;
export const isFloating = (type: Type): boolean => type === "float" || type === "double";
export const isSigned = (type: Scalar): boolean => KINDS[type].name.startsWith("s");

export function kindOf(type: Type): Kind {
  if (isStruct(type)) throw new NoPtx("a struct in a register");
  return KINDS[isPointer(type) ? "unsigned long long" : type];
}

export const bytesOf = (type: Type): number =>
  isStruct(type) ? type.fields.reduce((sum, field) => sum + bytesOf(field.type), 0) : kindOf(type).bytes;

/** The type in which C computes with both. */
export function commonType(a: Scalar, b: Scalar): Scalar {
  const [rank, type] = [a, b].map((type) => [kindOf(type).rank, type] as const)
    .reduce((most, one) => one[0] > most[0] ? one : most);
  return rank === 0 ? "int" : type;
}

/** A whole number as this type has it. */
export function wrapped(value: bigint, type: Scalar): bigint {
  const bits = 8 * kindOf(type).bytes;
  return isSigned(type) ? BigInt.asIntN(bits, value) : BigInt.asUintN(bits, value);
}

const double = new Float64Array(1), float = new Float32Array(1);
const hex = (bytes: ArrayBuffer): string => new Uint8Array(bytes).toReversed().toHex().toUpperCase();

/** A number as PTX writes it. */
export function immediate(value: number | bigint | boolean, type: Scalar): string {
  if (type === "float") return float[0] = Number(value), `0f${hex(float.buffer)}`;
  if (type === "double") return double[0] = Number(value), `0d${hex(double.buffer)}`;
  return BigInt.asIntN(8 * kindOf(type).bytes, BigInt(value)).toString();
}
