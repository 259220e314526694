// Numbers side by side are read and written at once: 16 bytes of them, or four of half precision.
import type { StridedAccess } from "../kernel.ts";
import type { Lanes } from "./expressions.ts";

/** Numbers that are read or written at once. */
interface Packs {
  readonly count: number;
  readonly type: string;
  /** So many numbers are in each. */
  readonly lanes: number;
  read(pack: string, lane: number): string;
  made(numbers: readonly string[]): readonly string[];
}

const FOURS: Omit<Packs, "count" | "type"> = {
  lanes: 4,
  read: (pack, lane) => `${pack}.${"xyzw"[lane]}`,
  made: (numbers) => numbers,
};
/** Two numbers of half precision are a word. */
const EIGHT: Packs = {
  ...{ count: 1, type: "uint4", lanes: 8 },
  read: (pack, lane) => `(unsigned short)(${pack}.${"xyzw"[lane >> 1]}${lane % 2 === 1 ? " >> 16" : ""})`,
  made: (numbers) => [0, 2, 4, 6].map((i) => `${numbers[i]} | (unsigned)${numbers[i + 1]} << 16`),
};

export function packsOf(kind: StridedAccess["kind"], lanes: Lanes): Packs {
  if (kind === "f32") return { ...FOURS, count: lanes / 4, type: "float4" };
  return lanes === 8 ? EIGHT : { ...FOURS, count: 1, type: "ushort4" };
}

/** A group computes with this in place of what it reads. */
export function asFloat(kind: StridedAccess["kind"], read: string): string {
  switch (kind) {
    case "f32":
      return read;
    case "bool":
      return `${read} != 0`;
    case "i64":
      return `(float)${read}`;
    default:
      return `of_${kind}(${read})`;
  }
}
